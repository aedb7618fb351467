"""What comes in: deliveries that are settled later, their answers in order, QoS 2 once."""

import logging
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, final

from gateway.mqtt import packets
from gateway.mqtt.decode import check_topic_name
from gateway.mqtt.encode import encode_ack
from gateway.mqtt.errors import PacketError
from gateway.mqtt.packets import V5, Properties, Publish
from gateway.mqtt.properties import decode_properties
from gateway.mqtt.reasons import RECEIVE_MAXIMUM_EXCEEDED, TOPIC_ALIAS_INVALID

_TOPICS_MAX: Final = 4096  # names remembered as text
_EXCESS: Final = 10  # mosquitto 2.0 loses count of the Receive Maximum where answers come out of order
_OPEN: Final = 0
_ANSWERED: Final = 1
_LEFT: Final = 2

_log = logging.getLogger("forebay.client")


class Answers(Protocol):
    """Where answers are written: a connection."""

    def put(self, data: bytes) -> None:
        """Write soon, after all that was put before."""

    def put_puback(self, packet_id: int) -> None:
        """The commonest answer."""


@final
class Delivery:
    """One message as it came. Whoever has it settles it, from any task of the loop, once: ``ack`` or ``leave``.

    ``packet_id`` is 0 at QoS 0. ``dup`` says that the broker sent it before.
    """

    __slots__ = ("_code", "_lane", "_properties", "_publish", "_state", "dup", "packet_id", "qos", "retain", "topic")

    def __init__(self, publish: Publish, topic: str, lane: "_Lane | None") -> None:
        self.topic: str = topic
        self.qos: int = publish.qos
        self.retain: bool = publish.retain
        self.dup: bool = publish.dup
        self.packet_id: int = publish.packet_id
        self._publish = publish
        self._lane = lane
        self._state = _OPEN
        self._code = 0
        self._properties: Properties | None = None

    @property
    def payload(self) -> bytes:
        return self._publish.payload

    @property
    def expiry_s(self) -> int:
        """What was left of the message's life when it came, in seconds; -1 = it does not end."""
        return self._publish.expiry

    @property
    def subscription_identifiers(self) -> list[int]:
        """Those of all subscriptions that it came for; none on 3.1.1."""
        return self._publish.subscription_identifiers or []

    @property
    def properties(self) -> Properties:
        """All properties of MQTT 5.0, user properties in their order; what is absent is -1 or None."""
        if self._properties is None:
            props = self._publish.props
            self._properties = decode_properties(props, 0, len(props), packets.PUBLISH)
            self._properties.message_expiry_interval = self._publish.expiry
            self._properties.subscription_identifiers = self.subscription_identifiers
        return self._properties

    @property
    def user_properties(self) -> list[tuple[str, str]]:
        """In the order in which the publisher wrote them, repeats kept."""
        return self.properties.user_properties if self._publish.props else []

    @property
    def settled(self) -> bool:
        """``ack`` or ``leave`` was said."""
        return self._state != _OPEN

    @property
    def lost(self) -> bool:
        """The connection that it came on is over: an answer cannot leave, the broker sends it again."""
        return self._lane is not None and self._lane.wire is None

    def ack(self, code: int = 0) -> bool:
        """The message is done: PUBACK or PUBREC, in the order of receipt [MQTT-4.6.0-2] [MQTT-4.6.0-3].

        It leaves when all that came before at the same QoS is settled. A ``code`` of 0x80 and more says that it was
        not taken; brokers do not send it again for that. 3.1.1 cannot say it: ValueError. False: no answer will
        leave, since this is QoS 0, settled already, or came on a connection that is over.
        """
        if self._state != _OPEN:
            return False
        lane = self._lane
        if lane is None:
            self._state = _ANSWERED
            return False
        if code >= 0x80 and lane.version != V5:
            raise ValueError("MQTT 3.1.1 has no answer that refuses a message")
        self._code = code
        self._state = _ANSWERED
        return lane.settle()

    def leave(self) -> None:
        """No answer: those behind it go on, it holds a slot of the Receive Maximum and comes with the next connection.

        Only a session that the broker keeps gets it again.
        """
        if self._state == _OPEN:
            self._state = _LEFT
            if self._lane is not None:
                self._lane.settle()


@final
class _Lane:
    """The answers of one kind on one connection, in the order in which what they answer came."""

    __slots__ = ("_incoming", "_kind", "version", "waiting", "wire")

    def __init__(self, kind: int, wire: Answers, version: int, incoming: "Incoming") -> None:
        self.wire: Answers | None = wire
        self.version: int = version
        self.waiting: deque[Delivery] = deque()
        self._kind = kind
        self._incoming = incoming

    def settle(self) -> bool:
        """Answer what can be answered; False when the connection is over."""
        wire = self.wire
        if wire is None:
            return False
        waiting = self.waiting
        while waiting and waiting[0]._state:
            done = waiting.popleft()
            if done._state == _LEFT:
                self._incoming.left += 1
            elif self._kind == packets.PUBACK:
                self._incoming.slots -= 1
                if done._code:
                    wire.put(encode_ack(packets.PUBACK, done.packet_id, done._code, self.version))
                else:
                    wire.put_puback(done.packet_id)
            else:
                wire.put(encode_ack(packets.PUBREC, done.packet_id, done._code, self.version))
                if done._code >= 0x80:  # the flow ends here [MQTT-4.3.3]
                    self._incoming.finish(done.packet_id)
        return True


@final
class Incoming:
    """The receiving half of a session, over as many connections as it lives.

    ``receive_maximum`` is what we announced; a peer that exceeds it tenfold is closed with 0x93. ``deliver`` must not
    raise: where it does all the same, the message is left and the error logged.
    """

    def __init__(self, version: int, receive_maximum: int, deliver: Callable[[Delivery], object] | None) -> None:
        self.deliver = deliver
        self.slots: int = 0  # of the Receive Maximum that are taken on this connection
        self.left: int = 0  # of these, those that nothing will be answered to
        self.received: int = 0  # deliveries, since the beginning
        self._version = version
        self._slots_max = _EXCESS * receive_maximum if version == V5 else 0xFFFF
        self._topics: dict[bytes, str] = {}
        self._acks: _Lane | None = None
        self._recs: _Lane | None = None
        self._unreleased: dict[int, Delivery] = {}  # QoS 2, by packet id, until PUBREL

    @property
    def unsettled(self) -> int:
        """Deliveries of this connection that wait for their handler, or behind one that does."""
        return sum(len(lane.waiting) for lane in (self._acks, self._recs) if lane is not None)

    @property
    def unreleased(self) -> int:
        """QoS 2 messages that are answered and whose PUBREL is to come."""
        return sum(message._state == _ANSWERED for message in self._unreleased.values())

    def connected(self, wire: Answers, session_present: bool) -> None:
        """A connection is open; where the session is gone nothing of before matters."""
        self.disconnected()
        self._acks = _Lane(packets.PUBACK, wire, self._version, self)
        self._recs = _Lane(packets.PUBREC, wire, self._version, self)
        if not session_present:
            self._unreleased.clear()

    def disconnected(self) -> None:
        """The answers that did not leave never will; the broker sends those messages again."""
        for lane in (self._acks, self._recs):
            if lane is not None:
                lane.wire = None
        self._acks = self._recs = None
        self.slots = self.left = 0
        for packet_id in [packet_id for packet_id, message in self._unreleased.items() if message._state == _LEFT]:
            del self._unreleased[packet_id]

    def on_publish(self, publish: Publish) -> None:
        """Deliver. Raises PacketError where the peer broke the protocol."""
        if publish.alias:
            raise PacketError(TOPIC_ALIAS_INVALID, "topic alias where none is allowed")
        topic = self._topics.get(publish.topic)
        if topic is None:
            topic = self._named(publish.topic)
        lane: _Lane | None = None
        if publish.qos:
            lane = self._acks if publish.qos == 1 else self._recs
            if lane is None:
                return
            if publish.qos == 2 and publish.packet_id in self._unreleased and self._is_repeated(publish, lane):
                return
            self.slots += 1
            if self.slots > self._slots_max:
                raise PacketError(RECEIVE_MAXIMUM_EXCEEDED, f"more than {self._slots_max} messages in flight")
        delivery = Delivery(publish, topic, lane)
        if lane is not None:
            lane.waiting.append(delivery)
            if publish.qos == 2:
                self._unreleased[publish.packet_id] = delivery
        if publish.cut:
            _log.warning("a message to %s of %d bytes is larger than is taken: dropped", topic, publish.body)
            delivery.ack()
            return
        self.received += 1
        try:
            if self.deliver is not None:
                self.deliver(delivery)
        except Exception:
            _log.exception("a message to %s was not taken", topic)
            delivery.leave()

    def _named(self, raw: bytes) -> str:
        if len(self._topics) >= _TOPICS_MAX:
            self._topics.clear()
        topic = self._topics[raw] = check_topic_name(raw)
        return topic

    def _is_repeated(self, publish: Publish, lane: _Lane) -> bool:
        """Whether this is a message that we have, told by its packet id [MQTT-4.3.3]; then its answer is due again."""
        known = self._unreleased[publish.packet_id]
        if known._publish.topic != publish.topic or known.payload != publish.payload:
            return False  # a broker that lost its session and says otherwise
        if known._lane is lane and (known in lane.waiting or known._state == _LEFT):
            return True
        if known._lane is not lane:
            self.slots += 1
        known._lane = lane
        lane.waiting.append(known)
        lane.settle()
        return True

    def on_pubrel(self, packet_id: int, wire: Answers) -> None:
        """PUBCOMP, known or not: where the broker did not get it, we forgot the message before it did."""
        wire.put(encode_ack(packets.PUBCOMP, packet_id, 0, self._version))
        self.finish(packet_id)

    def finish(self, packet_id: int) -> None:
        """A QoS 2 packet id is free."""
        self._unreleased.pop(packet_id, None)
        self.slots = max(0, self.slots - 1)

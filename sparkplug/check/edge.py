"""Requirements on one edge node with its devices: sessions, births, seq, its primary host, commands to it."""

from typing import Any, Final, final

from sparkplug import state
from sparkplug.actions import Publish
from sparkplug.check.content import Content, check_sent, read
from sparkplug.check.matching import matches
from sparkplug.check.observed import Connected, Disconnected, Published, Subscribed
from sparkplug.check.topics import check_outside
from sparkplug.check.verdicts import Verdicts
from sparkplug.datatypes import DataType
from sparkplug.sequence import SEQ_COUNT
from sparkplug.source import BD_SEQ, REBIRTH
from sparkplug.topic import MessageType, NodeId, StateTopic, Topic, TopicError, parse

_FLOW: Final = "message-flow-edge-node-birth-publish"
_WILL: Final = f"{_FLOW}-will-message"
_BEHAVIOR: Final = "operational-behavior"
_LEFT: Final = f"{_BEHAVIOR}-edge-node-termination-host-offline"
_SERVERS: Final = f"{_BEHAVIOR}-primary-application-state-with-multiple-servers"
_REBIRTH: Final = f"{_BEHAVIOR}-data-commands-rebirth"
_UNIQUE: Final = "topic-structure-namespace-unique-edge-node-descriptor"
MQTT5: Final = 5
_WITH_WILL: Final = 4

_SEQ_IDS: Final = {
    MessageType.NDATA: ("topics-ndata-seq-num", "payloads-ndata-seq-inc"),
    MessageType.DBIRTH: (
        "topics-dbirth-seq",
        "payloads-dbirth-seq-inc",
        "message-flow-device-birth-publish-dbirth-payload-seq",
    ),
    MessageType.DDATA: ("topics-ddata-seq-num", "payloads-ddata-seq-inc"),
    MessageType.DDEATH: ("topics-ddeath-seq-num", "payloads-ddeath-seq-inc"),
}
_SEQ_THERE_IDS: Final = {
    MessageType.NDATA: ("payloads-ndata-seq",),
    MessageType.DBIRTH: ("payloads-dbirth-seq",),
    MessageType.DDATA: ("payloads-ddata-seq",),
    MessageType.DDEATH: ("payloads-ddeath-seq", "payloads-ddeath-seq-number"),
}


def bd_seq(message: Any) -> Any:
    """The metric of that name, None without it."""
    return next((metric for metric in message.metrics if metric.name == BD_SEQ), None)


@final
class EdgeWatch:
    """One edge node. ``grace_ms``: how long data may still be on its way after what should have stopped it."""

    def __init__(self, verdicts: Verdicts, id: NodeId, servers: int, grace_ms: int) -> None:
        self.id = id
        self.client: str | None = None  # None: no connection of it was seen
        self.server = ""
        self.content = Content(verdicts)
        self._verdicts = verdicts
        self._servers = servers
        self._grace_ms = grace_ms
        self._version = 0
        self._will_bd: int | None = None  # without a connection: that of the last birth
        self._births_bd: set[int | None] = set()  # of all births that were seen
        self._filters: list[tuple[str, int]] = []
        self._published = False
        self._born = False
        self._died = False  # said NDEATH
        self._seq: int | None = None  # of the last message
        self._alive: set[str] = set()
        self._alive_before: set[str] = set()
        self._data_since_birth = False
        self._rebirth_at: int | None = None
        self._owed: set[str] = set()  # devices whose DBIRTH must follow a rebirth
        self._primary: StateTopic | None = None
        self._said: state.State | None = None  # the last valid STATE of the primary host
        self._reasons = ""  # why what was read of hosts until now does not allow a birth
        self._offline_at: int | None = None
        self._stale_offline = False
        self._left: str | None = None  # the server that was left because the primary host is offline

    # The session

    def on_connected(self, seen: Connected) -> None:
        verdicts, will = self._verdicts, seen.will
        assert will is not None
        free = self.client is None or self.server == seen.server
        verdicts.expect(free, f"{self.id}: connected to {self.server} and {seen.server}", f"{_SERVERS}-single-server")
        if self._left is not None and self._servers > 1:
            moved = seen.server != self._left
            again = f"{self.id}: back to {seen.server}"
            verdicts.expect(moved, again, f"{_LEFT}-reconnect", f"{_SERVERS}-walk")
        version = "50" if seen.version >= MQTT5 else "311"
        clean = seen.clean and (version == "311" or seen.expiry_s == 0)
        verdicts.expect(clean, f"{self.id}: a session that stays", f"principles-persistence-clean-session-{version}")
        verdicts.met(_WILL, f"{_WILL}-topic", "payloads-ndeath-will-message")
        qos = f"{self.id}: the will has QoS {will.qos}"
        verdicts.expect(will.qos == 1, qos, f"{_WILL}-qos", "payloads-ndeath-will-message-qos")
        kept = f"{self.id}: the will is retained"
        verdicts.expect(not will.retain, kept, f"{_WILL}-will-retained", "payloads-ndeath-will-message-retain")
        message = read(will.payload)
        verdicts.expect(message is not None, f"{self.id}: the will is no payload", f"{_WILL}-payload")
        found = self._check_death(message, "the will") if message is not None else None
        value = None if found is None else found.long_value
        good = found is not None and found.datatype == DataType.Int64
        if self._will_bd is not None:
            good = good and value == (self._will_bd + 1) % SEQ_COUNT
        why = f"{self.id}: bdSeq {value} after {self._will_bd}"
        verdicts.expect(good, why, f"{_WILL}-payload-bdSeq", "topics-nbirth-bdseq-increment")
        self._will_bd = value
        self.client, self.server, self._version = seen.client, seen.server, seen.version
        self._filters.clear()
        self._published = self._born = self._died = self._stale_offline = False
        self._primary = self._said = self._rebirth_at = self._offline_at = self._left = self._seq = None
        self._reasons = ""

    def on_subscribed(self, seen: Subscribed) -> None:
        self._filters += seen.filters
        for name, _ in seen.filters:
            try:
                topic = parse(name)
            except TopicError:
                continue
            if isinstance(topic, StateTopic):
                self._primary = topic
                self._verdicts.met(f"{_SERVERS}-state-subs")

    def on_disconnected(self, seen: Disconnected) -> None:
        verdicts, where = self._verdicts, f"{self.id}: disconnect"
        if seen.reason is not None and self._born:
            said = self._died or (self._version >= MQTT5 and seen.reason == _WITH_WILL)
            verdicts.met(f"{_BEHAVIOR}-edge-node-intentional-disconnect-packet")
            verdicts.expect(
                said,
                f"{where} without NDEATH",
                f"{_BEHAVIOR}-edge-node-intentional-disconnect-ndeath",
                "payloads-ndeath-will-message-publisher",
            )
            ids = "payloads-ndeath-will-message-publisher-disconnect-mqtt"
            if self._version >= MQTT5:
                verdicts.expect(seen.reason == _WITH_WILL, f"{where} with reason {seen.reason}", f"{ids}50")
            else:
                verdicts.expect(said, f"{where} without NDEATH", f"{ids}311")
        if self._offline_at is not None:
            verdicts.expect(
                self._died or not self._born,
                f"{where} without NDEATH when its host went offline",
                f"{_FLOW}-phid-offline",
                _LEFT,
            )
            self._left = self.server
        elif self._said is not None and not self._said.online:
            self._left = self.server
        self.client = None
        self._born = False

    # What it reads

    def on_state(self, topic: StateTopic, payload: bytes, at: int) -> None:
        """A STATE was delivered to it."""
        if topic != self._primary:
            self._reasons = "wait-id"
            return
        try:
            said = state.decode(payload, legacy=topic.legacy)
        except state.StateError:
            self._reasons = "wait-online"
            return
        if said is None:
            return
        if not said.follows(self._said):
            self._reasons = "wait-timestamp"
            self._stale_offline = not said.online and self._born
            return
        self._said = said
        self._offline_at = at if not said.online and self._born else None

    def on_command(self, message: Publish, at: int) -> None:
        """A command was delivered to it, or published for it."""
        found = read(message.payload)
        if found is None or message.topic.split("/")[2] != MessageType.NCMD:
            return
        if (self._born or self.client is None) and any(
            metric.name == REBIRTH and metric.boolean_value for metric in found.metrics
        ):
            self._rebirth_at = at

    # What it says

    def on_published(self, topic: Topic, seen: Published) -> None:
        verdicts, type, at = self._verdicts, topic.type, seen.at
        where = f"{type} of {self.id}" if topic.device is None else f"{type} of {self.id}/{topic.device}"
        check_outside(verdicts, type, seen.message)
        if self.client is not None and not self._published:
            first = type is MessageType.NBIRTH
            verdicts.expect(first, f"{where} is the first message", "principles-birth-certificates-order")
        self._published = True
        message = read(seen.message.payload)
        if type in (MessageType.NBIRTH, MessageType.DBIRTH):
            ids = (
                f"{_FLOW}-nbirth-payload"
                if topic.device is None
                else "message-flow-device-birth-publish-dbirth-payload"
            )
            verdicts.expect(message is not None, f"{where} is no payload", ids)
        if message is None:
            return
        if type is MessageType.NDEATH:
            self._on_death(message, where)
            return
        self._check_stopped(type, where, at)
        check_sent(verdicts, type, where, message, at)
        self._check_seq(type, where, message)
        if type is MessageType.NBIRTH:
            self._on_birth(message, where, seen)
        elif type is MessageType.DBIRTH:
            self._on_device_birth(topic, message, where, at)
        elif type is MessageType.DDEATH:
            assert topic.device is not None
            verdicts.met(f"{_BEHAVIOR}-device-ddeath")
            self._alive.discard(topic.device)
        else:
            self._on_data(topic, message, where, at)

    def _check_stopped(self, type: MessageType, where: str, at: int) -> None:
        """Some things must have made the node stop; data that comes long after them has not."""
        verdicts = self._verdicts
        if self._stale_offline:
            self._stale_offline = False
            verdicts.met(f"{_LEFT}-timestamp")
        late = type is not MessageType.NBIRTH
        if self._offline_at is not None and late and at > self._offline_at + self._grace_ms:
            verdicts.unmet(f"{where} though its host is offline", f"{_FLOW}-phid-offline", _LEFT)
        if self._rebirth_at is not None and type in (MessageType.NDATA, MessageType.DDATA):
            if at > self._rebirth_at + self._grace_ms:
                verdicts.unmet(f"{where} though a rebirth was asked for", f"{_REBIRTH}-action-1")

    def _check_seq(self, type: MessageType, where: str, message: Any) -> None:
        verdicts = self._verdicts
        there = message.HasField("seq") and message.seq < SEQ_COUNT
        seq = message.seq if message.HasField("seq") else None
        verdicts.expect(there, f"{where}: seq {seq}", "payloads-sequence-num-always-included")
        if type is MessageType.NBIRTH:
            verdicts.expect(there and seq == 0, f"{where}: seq {seq}", "topics-nbirth-seq-num")
            verdicts.expect(
                there,
                f"{where}: seq {seq}",
                f"{_FLOW}-nbirth-payload-seq",
                "payloads-nbirth-seq",
                "payloads-sequence-num-req-nbirth",
            )
        else:
            verdicts.expect(there, f"{where}: seq {seq}", *_SEQ_THERE_IDS[type])
            if self._seq is not None:
                good = seq == (self._seq + 1) % SEQ_COUNT
                why = f"{where}: seq {seq} after {self._seq}"
                verdicts.expect(good, why, "payloads-sequence-num-incrementing", *_SEQ_IDS[type])
        self._seq = seq if there else None

    def _on_birth(self, message: Any, where: str, seen: Published) -> None:
        verdicts = self._verdicts
        if self.client is not None:
            verdicts.met(f"{_FLOW}-connect")
            verdicts.expect(self.client == seen.client, f"{where}: from {self.client} and {seen.client}", _UNIQUE)
            self._check_subscribed(
                f"spBv1.0/{self.id.group}/NCMD/{self.id.node}", "message-flow-edge-node-ncmd-subscribe"
            )
        self._check_host_waited(where)
        self._check_bd_seq(message, where)
        rebirth = next((metric for metric in message.metrics if metric.name == REBIRTH), None)
        verdicts.expect(rebirth is not None, f"{where}: no {REBIRTH}", f"{_REBIRTH}-name")
        good = False
        if rebirth is not None:
            verdicts.expect(
                not rebirth.HasField("alias"), f"{where}: {REBIRTH} has an alias", f"{_REBIRTH}-name-aliases"
            )
            boolean = rebirth.datatype == DataType.Boolean
            verdicts.expect(boolean, f"{where}: {REBIRTH} is no Boolean", f"{_REBIRTH}-datatype")
            false = rebirth.WhichOneof("value") == "boolean_value" and not rebirth.boolean_value
            verdicts.expect(false, f"{where}: {REBIRTH} is not false", f"{_REBIRTH}-value")
            good = boolean and false
        verdicts.expect(good, f"{where}: {REBIRTH}", "topics-nbirth-rebirth-metric", "payloads-nbirth-rebirth-req")
        self.content.birth(None, where, message, seen.at)
        self._owed = set(self._alive) if self._rebirth_at is not None else set()
        if self._rebirth_at is not None:
            verdicts.met(f"{_REBIRTH}-action-1")
            if not self._owed:
                verdicts.met(f"{_REBIRTH}-action-2")
        self._rebirth_at = None
        self._born, self._died, self._data_since_birth = True, False, False
        self._alive_before, self._alive = self._alive, set()

    def _check_bd_seq(self, message: Any, where: str) -> None:
        verdicts, found = self._verdicts, bd_seq(message)
        verdicts.expect(
            found is not None, f"{where}: no bdSeq", "topics-nbirth-bdseq-included", "payloads-nbirth-bdseq"
        )
        value = None if found is None else found.long_value
        self._births_bd.add(value)
        if self.client is None:
            self._will_bd = value
            return
        same = found is not None and found.datatype == DataType.Int64 and value == self._will_bd
        ids = ["topics-nbirth-bdseq-matching", f"{_FLOW}-nbirth-payload-bdSeq", "payloads-nbirth-bdseq-repeat"]
        if self._rebirth_at is not None:
            ids.append(f"{_REBIRTH}-action-3")
        verdicts.expect(same, f"{where}: bdSeq {value}, in the will {self._will_bd}", *ids)

    def _check_host_waited(self, where: str) -> None:
        if self._primary is None:
            return
        ids = [f"{_FLOW}-phid-{rest}" for rest in ("wait", "wait-id", "wait-online", "wait-timestamp")]
        online = self._said is not None and self._said.online
        if online:
            self._verdicts.met(*ids, f"{_BEHAVIOR}-edge-node-birth-sequence-wait")
            return
        why = f"{where}: its host {self._primary.host} is not online"
        wrong = [ids[0], f"{_BEHAVIOR}-edge-node-birth-sequence-wait"]
        if self._reasons:
            wrong.append(f"{_FLOW}-phid-{self._reasons}")
        self._verdicts.unmet(why, *wrong)

    def _on_device_birth(self, topic: Topic, message: Any, where: str, at: int) -> None:
        verdicts, device = self._verdicts, topic.device
        assert device is not None
        if self.client is not None or self._born:
            verdicts.expect(
                self._born,
                f"{where} before NBIRTH",
                "message-flow-device-birth-publish-nbirth-wait",
                "message-flow-device-birth-publish-dbirth-match-edge-node-topic",
            )
            late = self._data_since_birth and device in self._alive_before and device in self._owed
            verdicts.expect(not late, f"{where} after data", "payloads-dbirth-order")
        if self.client is not None:
            self._check_subscribed(
                f"spBv1.0/{self.id.group}/DCMD/{self.id.node}/{device}", "message-flow-device-dcmd-subscribe"
            )
        self.content.birth(device, where, message, at)
        self._alive.add(device)
        if device in self._owed:
            self._owed.discard(device)
            if not self._owed:
                verdicts.met(f"{_REBIRTH}-action-2")

    def _on_data(self, topic: Topic, message: Any, where: str, at: int) -> None:
        verdicts, device = self._verdicts, topic.device
        if self._owed:
            verdicts.unmet(f"{where} before DBIRTH of {sorted(self._owed)}", f"{_REBIRTH}-action-2")
            self._owed = set()
        if self.client is not None or self._born:
            good = self._born and (device is None or device in self._alive)
            ids = "payloads-ndata-order" if device is None else "payloads-ddata-order"
            verdicts.expect(good, f"{where} before its birth", ids)
        self._data_since_birth = True
        self.content.data(device, where, message, at)

    def _on_death(self, message: Any, where: str) -> None:
        found = self._check_death(message, where)
        value = None if found is None else found.long_value
        if value is not None and self._will_bd is not None:
            # Without a connection to know it by, it may be the will of an earlier session that comes late.
            same = value == self._will_bd or (self.client is None and value in self._births_bd)
            why = f"{where}: bdSeq {value}, in the birth {self._will_bd}"
            self._verdicts.expect(same, why, "payloads-ndeath-bdseq")
            if self.client is None and value != self._will_bd:
                return
        self._died = True
        if self._stale_offline:
            self._stale_offline = False
            self._verdicts.unmet(f"{where}: for an old offline of its host", f"{_LEFT}-timestamp")
        if self.client is None:
            self._born, self._seq = False, None
            self._alive.clear()

    def _check_death(self, message: Any, where: str) -> Any:
        verdicts, found = self._verdicts, bd_seq(message)
        verdicts.met("topics-ndeath-topic")
        alone = found is not None and len(message.metrics) == 1
        verdicts.expect(alone, f"{where} of {self.id}: not bdSeq alone", "topics-ndeath-payload")
        bare = not message.HasField("seq")
        verdicts.expect(bare, f"{where} of {self.id}: seq", "topics-ndeath-seq", "payloads-ndeath-seq")
        return found

    def _check_subscribed(self, topic: str, *ids: str) -> None:
        qos = max((qos for name, qos in self._filters if matches(name, topic)), default=-1)
        why = f"{self.id}: {topic} " + ("is not subscribed to" if qos < 0 else f"is subscribed to at QoS {qos}")
        self._verdicts.expect(qos >= 1, why, *ids)

"""An application message on its way: what was published, its place in the log, and the bytes made of it so far."""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64, mypyc_attr

from gateway.core.envelope import envelope
from gateway.mqtt.encode import publish_properties
from gateway.mqtt.packets import PUBACK

if TYPE_CHECKING:
    from gateway.core.model import Client, Target


@final
class Segment:
    """A stretch of the message log, and how many deliveries still need it: one commit's worth, or that of several small
    ones (segments.py), stored under the ids ``id``..``upto``.

    Ids grow with the commits. Positions are ``first``..``last``, with gaps: messages held back
    (see hold.py) may come in a later segment or never. For one queue positions grow from segment to segment.
    """

    def __init__(self, id: int) -> None:
        self.id = id
        self.upto = id
        self.first: int = 0
        self.last: int = 0
        self.time: int = 0  # gateway ms of its last commit: all in it is at least so old
        self.since: int = 0  # of its first one
        self.committed: bool = False
        self.pending: int = 0  # deliveries not settled yet
        self.bytes: int = 0
        self.damaged: bool = False
        self.expires: int = 0  # gateway ms by which all of it has expired; 0 = never


NOBODY: Final[list["Target"]] = []  # one for all: a list is set as a whole


@mypyc_attr(acyclic=True)
class PendingAck:
    """An acknowledgement to a publisher that waits for the disk or for those before it."""

    def __init__(self, client: "Client", type: int, packet_id: int) -> None:
        self.client = client
        self.type = type
        self.packet_id = packet_id
        self.done: bool = False
        self.reason: int = 0


@mypyc_attr(acyclic=True)
@final
class Message(PendingAck):
    """``deadline`` is in gateway ms (0 = never expires); ``seq`` is its position in the log (0 = memory only)."""

    def __init__(
        self,
        topic: bytes,
        payload: bytes,
        qos: int,
        retain: bool,
        props: bytes = b"",
        deadline: i64 = 0,
    ) -> None:
        self.type = PUBACK
        self.packet_id = 0
        self.done = False
        self.reason = 0
        self.topic = topic
        self.payload = payload
        self.qos: i64 = qos
        self.retain = retain
        self.props = props  # encoded, forwardable, without length
        self.deadline = deadline
        self.size: i64 = len(topic) + len(payload) + len(props)  # bytes, what counts against the limits of queues
        self.single: bool = False  # a copy in the log for one session alone
        self.seq: i64 = 0
        self.segment: Segment | None = None  # set when it goes to the store
        # what it still needs before that
        self.targets = NOBODY  # the durable ones
        self.key: bytes = b""  # the same, packed
        self.missing: i64 = 0  # of them, how many have neither acknowledged nor ended
        self.gone: list[int] | None = None  # sids of the others
        self.answers: bool = False  # its publisher waits: it is its own pending PUBACK, ``client`` is set
        self.until: i64 = 0  # gateway ms to which its insert is held back
        self.waits: bool = False  # it may not leave before its commit
        self.promised: bool = False  # a will or a delayed one: nobody is there to be told that it cannot be kept
        # of an ingested Sparkplug message
        self.received: i64 = 0  # UTC ms, 0 = it was not
        self.tail: i64 = 0  # see envelope.py
        self._middle: bytes = b""

    def middle(self) -> bytes:
        """The encoded properties as they are in a PUBLISH of 5.0 that adds none."""
        if not self.props and not self.received:
            return b"\x00"
        if not self._middle:
            self._middle = publish_properties(self.forwarded(), -1, 0, None)
        return self._middle

    def forwarded(self) -> bytes:
        """The properties that go along: the publisher's, and the envelope."""
        if self.received:
            return self.props + envelope(self.seq, self.received, self.tail)
        return self.props

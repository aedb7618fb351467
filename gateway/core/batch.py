"""What one commit carries to the store, and what the store gives back at the start."""

from collections.abc import Iterable, Sequence
from typing import final

# (sid, client id or "$share/group/filter", kind 0 session 1 shared group, session expiry in s, deadline in ms or 0)
SessionRow = tuple[int, str, int, int, int]
# (sid, filter, subscription options as one byte, subscription identifier or 0)
SubscriptionRow = tuple[int, str, int, int]
# (segment_id, segment_last, targets)
SegmentRow = tuple[int, int, bytes]


@final
class Batch:
    """The write rows of one commit; all of it becomes durable in one transaction or none of it.

    ``number`` grows by one with each batch. Blobs are opaque to the store.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        # the segment of the message log: sequence numbers segment_id..segment_last; 0 = no messages
        self.segment_id: int = 0
        self.segment_last: int = 0
        self.targets: bytes = b""  # who must get how much of it; read at the start without the records
        self.records: bytes = b""
        self.dead_segments: list[int] = []  # settled by all: delete
        self.sessions: list[SessionRow] = []  # insert or replace
        self.gone: list[int] = []  # sids: delete session, cursor and subscriptions (before the inserts of this batch)
        self.cursors: dict[int, bytes] = {}  # sid -> packed state, insert or replace
        self.subscriptions: list[SubscriptionRow] = []  # insert or replace
        self.unsubscribed: list[tuple[int, str]] = []  # (sid, filter): delete (before the inserts)
        self.retained: dict[str, bytes | None] = {}  # topic -> packed message, None = delete
        self.wills: dict[str, bytes | None] = {}  # client id -> packed will, None = delete
        self.bridge: dict[str, bytes | None] = {}  # what is known of Sparkplug nodes, by key; None = delete
        self.delayed: dict[int, bytes | None] = {}  # id -> packed message that waits for its time, None = delete
        self.counters: list[tuple[int, str, int]] = []  # (sid or 0, name, absolute value): insert or replace
        self.meta: dict[str, int | str] = {}  # insert or replace


@final
class Snapshot:
    """Everything but the records of the log, as read at the start."""

    def __init__(self) -> None:
        self.sessions: list[SessionRow] = []
        self.cursors: dict[int, bytes] = {}
        self.subscriptions: list[SubscriptionRow] = []
        self.retained: list[tuple[str, bytes]] = []
        self.wills: list[tuple[str, bytes]] = []
        self.bridge: Iterable[tuple[str, bytes]] = []  # may be large: the store reads them one by one
        self.delayed: list[tuple[int, bytes]] = []
        self.counters: list[tuple[int, str, int]] = []
        self.meta: dict[str, int | str] = {}
        self.segments: Sequence[SegmentRow] = []  # in order
        self.damage: list[str] = []  # one line for each thing set aside or lost

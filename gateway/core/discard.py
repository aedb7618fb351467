"""The operator empties a queue: what waits is dropped and counted, session and subscriptions stay."""

from typing import Final

from mypy_extensions import i64

from gateway.core.backlog import end
from gateway.core.fifo import Fifo
from gateway.core.ledger import DISCARDED
from gateway.core.model import SENT, Backlog, Session
from gateway.core.state import Core

NO_QUEUE: Final = -1
PRESENT: Final = -2  # what is on its way to it cannot be taken back


def discard(core: Core, s: Session, now: i64) -> int:
    """Drop all that waits on disk for a session that is away, what it had not acknowledged included; how many.

    A QoS 2 message whose PUBREC came is no longer the broker's to drop: its PUBREL is sent as ever.
    """
    dropped = 0
    for b in s.backlogs():
        dropped += end(core, b, DISCARDED, now)
        begin_anew(core, b)
        core.moved_on(b, now)
    for packet_id, d in list(s.inflight.items()):
        if d.state <= SENT:
            del s.inflight[packet_id]
            if d.counted:
                s.used -= 1
    s.staged = 0
    s.resend = Fifo([packet_id for packet_id in s.resend if packet_id in s.inflight])
    core.dirty_session(s)
    core.commit.lazy_at = now  # a crash would bring them back
    if core.parked:
        core.retry = True
    return dropped


def begin_anew(core: Core, b: Backlog) -> None:
    """As after reading all that there is."""
    b.ended = False
    b.history = None
    b.ahead = set()
    b.loaded = core.next_seq - 1
    b.read_to = core.next_segment - 1
    b.live = True
    b.ordered = True
    b.ram_bytes = 0

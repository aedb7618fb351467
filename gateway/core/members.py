"""Which member of a shared group gets a message."""

from zlib import crc32

from mypy_extensions import i64

from gateway.core.limits import HASH_TOPIC, LEAST_INFLIGHT, STICKY
from gateway.core.message import Message
from gateway.core.model import Backlog, Delivery, Group, Session
from gateway.core.state import Core


def present(s: Session) -> bool:
    c = s.client
    return c is not None and c.connected and not c.closing


def has_room(s: Session) -> bool:
    """It can take a QoS > 0 message at once."""
    c = s.client
    if c is None or c.jammed() or s.used >= c.window or s.staged or s.queue or s.ranked or s.resend:
        return False
    return True


def pick(core: Core, g: Group, m: Message, room: bool) -> Session | None:
    """A connected member, or None; with ``room`` only one that can take a QoS > 0 message at once.

    Under hash_topic and sticky nobody stands in for one that has no room: its messages wait for it.
    """
    strategy = core.limits.shared_strategy
    if strategy == HASH_TOPIC:
        s = by_topic(g, m.topic)
    elif strategy == STICKY:
        s = sticky(g)
    elif strategy == LEAST_INFLIGHT:
        return least_inflight(g, room)
    else:
        return in_turn(g, room)
    return None if s is None or (room and not has_room(s)) else s


def in_turn(g: Group, room: bool) -> Session | None:
    n = len(g.members)
    for i in range(n):
        at = (g.turn + i) % n
        s = g.members[at]
        if present(s) and (not room or has_room(s)):
            g.turn = (at + 1) % n
            return s
    return None


def least_inflight(g: Group, room: bool) -> Session | None:
    """Of those with the fewest the next in turn."""
    n = len(g.members)
    best: Session | None = None
    best_at = 0
    least: i64 = 0
    for i in range(n):
        at = (g.turn + i) % n
        s = g.members[at]
        if not present(s) or (room and not has_room(s)):
            continue
        load: i64 = s.used + len(s.queue) + s.ranked
        if best is None or load < least:
            best = s
            best_at = at
            least = load
    if best is not None:
        g.turn = (best_at + 1) % n
    return best


def by_topic(g: Group, topic: bytes) -> Session | None:
    """The same one for a topic as long as nobody comes or goes."""
    here = [s for s in g.members if present(s)]
    return here[crc32(topic) % len(here)] if here else None


def sticky(g: Group) -> Session | None:
    s = g.sticky
    if s is None or s not in g.members or not present(s):
        s = in_turn(g, False)
        g.sticky = s
    return s


def next_pair(core: Core, g: Group, b: Backlog) -> tuple[Delivery, Session] | None:
    """The next of what waits that a member can take: the first, but that by topic one passes those who have no room."""
    d = b.ram.head()
    s = pick(core, g, d.message, True)
    if s is not None:
        return d, s
    if core.limits.shared_strategy != HASH_TOPIC:
        return None
    open = len([s for s in g.members if present(s) and has_room(s)])
    if not open:
        return None
    for d in b.ram:
        if d.message.waits:
            return None
        s = by_topic(g, d.message.topic)
        if s is not None and has_room(s):
            return d, s
    return None

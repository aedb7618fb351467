"""Retained messages for new subscriptions, at the pace of the one who gets them.

There may be more of them than a queue or a connection takes; since they are kept anyway, the rest waits where it is.
"""

from typing import Final

from mypy_extensions import i64

from gateway.core.backlog import delivery
from gateway.core.message import Message
from gateway.core.model import Feed, Session
from gateway.core.queue import deliver0, offer, waiting
from gateway.core.state import Core
from gateway.core.topics import Subscription

QUEUE_MESSAGES: Final = 500  # that may fill a memory session's queue where its length has no limit


def add(s: Session, sub: Subscription, found: list[tuple[str, Message]]) -> None:
    """Takes the place of what the same filter still had to get."""
    for old in s.feeds:
        if old.subscription.filter == sub.filter:
            old.found = []
    if found:
        s.feeds.append(Feed(sub, found))


def feed(core: Core, s: Session, now: i64) -> None:
    """Send on while there is room; call again when there may be more. One that was replaced has gone out already."""
    while s.feeds:
        f = s.feeds.head()
        sub = f.subscription
        if sub.filter in s.subscriptions:
            found = f.found
            while f.at < len(found):
                topic, m = found[f.at]
                if core.retained.get(topic) is m and (m.deadline == 0 or m.deadline > now):
                    if not room(core, s, m, sub):
                        return
                    one(core, s, sub, m, now)
                f.at += 1
        s.feeds.popleft()


def granted(core: Core, m: Message, sub: Subscription) -> int:
    """The QoS at which it goes out."""
    return max(m.qos, sub.qos) if core.limits.upgrade_qos else min(m.qos, sub.qos)


def room(core: Core, s: Session, m: Message, sub: Subscription) -> bool:
    """QoS 0 goes straight to the connection; the others may fill half of the queue, so that live messages have room."""
    c = s.client
    if c is None or not c.connected or c.closing:
        return False
    if granted(core, m, sub) == 0:
        return not c.congested
    ahead = waiting(core, s, m.topic)
    if ahead == 0:
        return True
    limits = core.limits
    most: i64 = limits.max_mqueue_len
    bytes_max: i64 = limits.max_mqueue_bytes
    if ahead >= (most // 2 if most else QUEUE_MESSAGES):
        return False
    return bytes_max == 0 or s.queue_bytes + m.size <= bytes_max // 2


def one(core: Core, s: Session, sub: Subscription, kept: Message, now: i64) -> None:
    """A retained message goes out as such [MQTT-3.3.1-8]."""
    m = Message(kept.topic, kept.payload, kept.qos, True, kept.props, kept.deadline)
    ids = [sub.identifier] if sub.identifier else None
    s.matched += 1
    d = delivery(core, m, sub.qos, True, ids, None)
    if d.qos == 0:
        deliver0(core, s, d, now)
    else:
        offer(core, s, d, now)

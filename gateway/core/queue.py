"""What cannot leave at once: the queue of a memory session, and QoS 0 past it."""

from typing import Final

from mypy_extensions import i64

from gateway.core.delivery import drop, start, write
from gateway.core.fifo import Fifo
from gateway.core.ledger import CONGESTED, QOS0_OFFLINE, QUEUE_FULL, TOO_LARGE
from gateway.core.limits import DROP_NEWEST, PUSH_BACK
from gateway.core.model import Delivery, Session
from gateway.core.ranks import of
from gateway.core.state import Core

SHARE_BYTES: Final = 65_536  # that a queue may have though all together have too many: those of others are to blame


def deliver0(core: Core, s: Session, d: Delivery, now: i64) -> None:
    """QoS 0 to a connected session: now, past a full window; when congested it waits or is dropped."""
    c = s.client
    if c is None:
        drop(core, s, d, QOS0_OFFLINE, now)
    elif c.congested or c.behind0 or not c.connected:
        if s.backlog is None and core.limits.mqueue_store_qos0:
            enqueue(core, s, d, now)
        else:
            drop(core, s, d, CONGESTED, now)
    elif write(core, c, d, False, now):
        s.settled += 1
    else:
        drop(core, s, d, TOO_LARGE, now)


def offer(core: Core, s: Session, d: Delivery, now: i64) -> None:
    """QoS 1/2 in memory: into the window or the queue."""
    c = s.client
    if c is not None and not s.queue and c.connected and not c.jammed() and s.used < c.window and not s.resend:
        if s.ranked == 0 and start(core, s, c, d, now):
            return
    enqueue(core, s, d, now)


def enqueue(core: Core, s: Session, d: Delivery, now: i64) -> None:
    """Into a memory session's queue; above its limits the oldest QoS 0 goes first, else the oldest."""
    limits = core.limits
    size = d.message.size
    queue = s.queue
    queue0 = s.queue0
    if s.ranks is not None:
        r = of(core, s, d.message.topic)
        queue = r.queue
        queue0 = r.queue0
    pushes = limits.mqueue_policy == PUSH_BACK
    if not pushes or d.qos == 0 or d.group is not None:  # else its publisher was held back while this was full
        while full(core, s, queue, queue0, size):
            victims = oldest(s, queue, queue0)
            if pushes and d.qos == 0 and not queue0:
                victims = None  # it displaces none that a publisher waited for
            if limits.mqueue_policy == DROP_NEWEST or victims is None:
                drop(core, s, d, QUEUE_FULL, now)
                return
            old = victims.popleft()
            core.queued(s, -old.message.size)
            if s.ranks is not None:
                s.ranked -= 1
            drop(core, s, old, QUEUE_FULL, now)
    core.queued(s, size)
    if d.qos == 0:
        queue0.append(d)
    else:
        queue.append(d)
    if s.ranks is not None:
        s.ranked += 1
        c = s.client
        if d.qos == 0 and c is not None:
            c.behind0 = True
            c.set_quick()


def oldest(s: Session, queue: Fifo[Delivery], queue0: Fifo[Delivery]) -> Fifo[Delivery] | None:
    """Where the next to give up stands: in the same queue, else (all are too large together) in that of lowest rank."""
    if queue0:
        return queue0
    if queue:
        return queue
    for r in reversed(s.ranks or []):
        if r.queue0:
            return r.queue0
        if r.queue:
            return r.queue
    return None


def queue_full(core: Core, s: Session, topic: bytes, size: i64) -> bool:
    """A message of this topic has no room; with priorities each has its own count, and the bytes are those of all."""
    if s.ranks is None:
        return full(core, s, s.queue, s.queue0, size)
    r = of(core, s, topic)
    return full(core, s, r.queue, r.queue0, size)


def full(core: Core, s: Session, queue: Fifo[Delivery], queue0: Fifo[Delivery], size: i64) -> bool:
    limits = core.limits
    n = limits.max_mqueue_len
    if n and len(queue) + len(queue0) >= n:
        return True
    most = limits.max_mqueue_bytes
    if most and s.queue_bytes + size > most:
        return True
    of_all = limits.waiting_bytes_max
    return of_all != 0 and core.waiting + size > of_all and s.queue_bytes + size > SHARE_BYTES


def waiting(core: Core, s: Session, topic: bytes) -> int:
    """Messages in the queue that one of this topic would join."""
    if s.ranks is None:
        return len(s.queue) + len(s.queue0)
    r = of(core, s, topic)
    return len(r.queue) + len(r.queue0)

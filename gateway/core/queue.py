"""What cannot leave at once: the queue of a memory session, and QoS 0 past it."""

from mypy_extensions import i64

from gateway.core.delivery import drop, start, write
from gateway.core.ledger import CONGESTED, QOS0_OFFLINE, QUEUE_FULL, TOO_LARGE
from gateway.core.limits import DROP_NEWEST, PUSH_BACK
from gateway.core.model import Delivery, Session
from gateway.core.state import Core


def deliver0(core: Core, s: Session, d: Delivery, now: i64) -> None:
    """QoS 0 to a connected session: now, past a full window; when congested it waits or is dropped."""
    c = s.client
    if c is None:
        drop(core, s, d, QOS0_OFFLINE, now)
    elif c.congested or not c.connected:
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
        start(core, s, c, d, now)
    else:
        enqueue(core, s, d, now)


def enqueue(core: Core, s: Session, d: Delivery, now: i64) -> None:
    """Into a memory session's queue; above its limits the oldest QoS 0 goes first, else the oldest."""
    limits = core.limits
    size = d.message.size
    if limits.mqueue_policy != PUSH_BACK:
        while queue_full(core, s, size):
            if limits.mqueue_policy == DROP_NEWEST or not (s.queue0 or s.queue):
                drop(core, s, d, QUEUE_FULL, now)
                return
            old = s.queue0.popleft() if s.queue0 else s.queue.popleft()
            s.queue_bytes -= old.message.size
            drop(core, s, old, QUEUE_FULL, now)
    s.queue_bytes += size
    if d.qos == 0:
        s.queue0.append(d)
    else:
        s.queue.append(d)


def queue_full(core: Core, s: Session, size: i64) -> bool:
    limits = core.limits
    n = limits.max_mqueue_len
    if n and len(s.queue) + len(s.queue0) >= n:
        return True
    most = limits.max_mqueue_bytes
    return most != 0 and s.queue_bytes + size > most

"""The three outbound paths: which one a client is on, and when what was written for it leaves.

Direct (sessions that end with the connection), persistent DEVICE and persistent APPLICATION. On the first two
PUBLISHes may gather over loop turns (flush.py); on the third, PUBLISH and PUBREL gather within one batch.
"""

from typing import Final

from mypy_extensions import i64

from gateway.core.flush import EVICTED, FlushCache
from gateway.core.ledger import EXPIRED, QUEUE_FULL
from gateway.core.limits import Limits
from gateway.core.message import Message
from gateway.core.model import APPLICATION, DEVICE, DIRECT, Backlog, Client, Delivery, Session
from gateway.core.rules import named, of_session
from gateway.core.state import Core

NAMES: Final = ["direct", "device", "application"]  # by path


def flush_cache(limits: Limits) -> FlushCache | None:
    """None when nothing gathers on the direct and the device path."""
    if limits.write_and_flush and limits.device_write_and_flush:
        return None
    return FlushCache(
        limits.flush_cache_max, limits.flush_cache_expiration_ms, limits.flush_interval_ms, limits.flush_idle_ms
    )


def choose(core: Core, c: Client, s: Session, username: str | None) -> None:
    """The client's path for as long as it is connected; it says how its queue is delivered, not where that is."""
    named(core, s, username)
    if s.backlog is None:
        c.path = DIRECT
    elif of_session(core, s) is not None:
        c.path = APPLICATION
    else:
        c.path = DEVICE
    settle(core, c)


def settle(core: Core, c: Client) -> None:
    """What the limits say of its path. A count of 0 or 1 gathers nothing."""
    limits = core.limits
    c.buffer = 0
    c.batch_flush = 0
    if c.path == APPLICATION:
        c.batch_flush = 0 if limits.app_write_and_flush else limits.app_buffered_msg_count
    else:
        direct = c.path == DIRECT
        count: i64 = limits.buffered_msg_count if direct else limits.device_buffered_msg_count
        at_once = limits.write_and_flush if direct else limits.device_write_and_flush
        if not at_once and count > 1:
            c.buffer = count
    c.gathers = c.buffer != 0 or c.path == APPLICATION


def reload(core: Core) -> None:
    """New limits: what waits under the old ones leaves."""
    old = core.flush
    if old is not None:
        for c in old.everything():
            core.touch(c)
    core.flush = flush_cache(core.limits)
    for c in core.clients:
        if c.session is not None:
            settle(core, c)


def gather(core: Core, c: Client, d: Delivery, now: i64) -> None:
    """A PUBLISH was put on a connection whose path gathers: now or later."""
    if c.path == APPLICATION:
        gather_in_batch(core, c)
    elif c.in_sends:
        pass  # it leaves with this turn
    elif d.retain or fills_window(c, d):
        core.touch(c)
    else:
        hold_back(core, c, now)


def fills_window(c: Client, d: Delivery) -> bool:
    """Then no other can follow before the client has seen what waits."""
    s = c.session
    if s is None or d.qos == 0:
        return False
    return s.used + (0 if d.counted else 1) >= c.window


def gather_in_batch(core: Core, c: Client) -> None:
    if not c.in_batch:
        core.touch(c)
        return
    c.batch += 1
    if c.batch_flush == 0 or c.batch % c.batch_flush == 0:
        core.touch(c)


def hold_back(core: Core, c: Client, now: i64) -> None:
    """It waits for others, if the count, the cache and the connection allow."""
    flush = core.flush
    assert flush is not None
    armed = flush.run_at
    if flush.wrote(c, now) or c.congested:
        core.touch(c)
    evicted = flush.overflow()
    if evicted is not None:
        core.log.append(f"{EVICTED}: {core.limits.flush_cache_max}")
        if evicted.waiting:
            core.touch(evicted)
    if flush.run_at != armed and flush.run_at:
        core.wake(flush.run_at)


def beyond_limits(core: Core, b: Backlog, m: Message, now: i64) -> str:
    """Why the oldest of a device's queue is dropped: more wait than the limit, or its time to live is over."""
    limits = core.limits
    if limits.device_limit and queued(b) > limits.device_limit:
        return QUEUE_FULL
    segment = m.segment
    if limits.device_ttl_s and m.deadline == 0 and segment is not None:
        if now - segment.time > limits.device_ttl_s * 1000:
            return EXPIRED
    return ""


def queued(b: Backlog) -> i64:
    """Messages that wait there; QoS 0 goes first when there are too many of its priority."""
    n = b.count - len(b.held)
    s = b.session
    if s is not None and s.ranks is not None:
        for r in s.ranks:
            other = r.backlog
            if r.zero is b and other is not None:
                n += other.count - len(other.held)
    return n


def tick(core: Core, flush: FlushCache, due: i64, now: i64) -> i64:
    """What has waited long enough leaves; returns ``due``, or the next look if that comes before it (gateway ms)."""
    for c in flush.run(now):
        core.touch(c)
    at = flush.due()
    return min(due, at) if at else due

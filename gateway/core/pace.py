"""The drain rates of a session: credit grows with time, each message from the queue takes some."""

from typing import Final

from mypy_extensions import i64

from gateway.core.model import Session
from gateway.core.state import Core

MESSAGE: Final = 1000  # credit is counted in thousandths, so that it grows by the rate each millisecond
BURST_MS: Final = 20  # credit of so much time is kept at most: what was missed is not made up at the cost of others


def held_back(core: Core, s: Session, now: i64) -> bool:
    """No message may be taken from the queue yet; the tick goes on when one may."""
    if lacks(s):
        grow(s, now)
        if lacks(s):
            core.apps.paced[s] = True
            core.wake(next_credit(s))
            return True
    return False


def lacks(s: Session) -> bool:
    return (s.drain_rate > 0 and s.credit < MESSAGE) or (s.drain_bytes > 0 and s.credit_bytes <= 0)


def grow(s: Session, now: i64) -> None:
    passed = now - s.credit_at
    s.credit = min(MESSAGE + s.drain_rate * BURST_MS, s.credit + s.drain_rate * passed)
    s.credit_bytes = min(s.drain_bytes * BURST_MS, s.credit_bytes + s.drain_bytes * passed)
    s.credit_at = now


def spend(s: Session, size: i64) -> None:
    """A message of so many bytes leaves the queue: a large one is paid off afterwards."""
    if s.drain_rate > 0:
        s.credit -= MESSAGE
    if s.drain_bytes > 0:
        s.credit_bytes -= MESSAGE * size


def next_credit(s: Session) -> i64:
    """Gateway ms at which the next message may be taken."""
    wait: i64 = 0
    if s.drain_rate > 0:
        wait = (MESSAGE - s.credit + s.drain_rate - 1) // s.drain_rate
    if s.drain_bytes > 0:
        wait = max(wait, (MESSAGE - s.credit_bytes + s.drain_bytes - 1) // s.drain_bytes)
    return s.credit_at + max(wait, 0)

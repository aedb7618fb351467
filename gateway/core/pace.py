"""The drain rate of a session: credit grows with time, each message from the queue takes some."""

from typing import Final

from mypy_extensions import i64

from gateway.core.model import Session
from gateway.core.state import Core

MESSAGE: Final = 1000  # credit is counted in thousandths, so that it grows by the rate each millisecond
BURST_MS: Final = 100  # credit of so much time is kept at most


def held_back(core: Core, s: Session, now: i64) -> bool:
    """No message may be taken from the queue yet; the tick goes on when one may."""
    if s.credit < MESSAGE:
        most: i64 = MESSAGE + s.drain_rate * BURST_MS
        s.credit = min(most, s.credit + s.drain_rate * (now - s.credit_at))
        s.credit_at = now
        if s.credit < MESSAGE:
            core.apps.paced[s] = True
            core.wake(next_credit(s))
            return True
    return False


def next_credit(s: Session) -> i64:
    """Gateway ms at which the next message may be taken; call only where there is a rate."""
    if not s.drain_rate:
        return s.credit_at
    return s.credit_at + (MESSAGE - s.credit + s.drain_rate - 1) // s.drain_rate

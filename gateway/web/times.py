"""Moments for people, in the time of this machine."""

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def clock_of(ms: int) -> str:
    """Date and time of day; the number where the calendar ends."""
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return str(ms)


def stamp_of(ms: int) -> str:
    """UTC, as a part of a file's name."""
    return (_EPOCH + timedelta(milliseconds=ms)).strftime("%Y%m%dT%H%M%S.") + f"{ms % 1000:03}Z"

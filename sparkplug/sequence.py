"""The order of one edge node's messages: a buffer sorted by seq, with a timer for what is missing.

seq counts 0..255 over all messages of a node and its devices and wraps, so a number alone says neither how far behind
nor how far ahead a message is. Three things help: the hash of the last message with each seq tells a repetition,
the timestamp tells what was sent before the birth in force, and of the rest the nearer half of the circle is believed.
"""

from enum import IntEnum
from typing import Final, Generic, TypeVar, final

SEQ_COUNT: Final = 256
_HALF: Final = SEQ_COUNT // 2

T = TypeVar("T")


class Verdict(IntEnum):
    """What to do with a message."""

    NOW = 0  # the next one: take it, then what ready() gives
    HELD = 1  # something before it is missing; ready() gives it later
    LATE = 2  # of an earlier time: keep it as history, it says nothing of now
    DUPLICATE = 3  # came before: drop it
    FULL = 4  # the same seq waits already with other bytes: give up what is missing, then ask again


def due(since: int, delay_ms: int, now: int) -> bool:
    """The delay is over, or the clock was set back, when waiting on could take for ever."""
    return not since <= now < since + delay_ms


@final
class _Held(Generic[T]):
    __slots__ = ("at", "digest", "item", "timestamp")

    def __init__(self, at: int, timestamp: int | None, digest: int, item: T) -> None:
        self.at = at
        self.timestamp = timestamp
        self.digest = digest
        self.item = item


@final
class Reorder(Generic[T]):
    """One node's. Times are ms; ``timeout_ms`` is how long a hole may stay open ('Reorder Timeout')."""

    def __init__(self, timeout_ms: int = 2000) -> None:
        self.timeout_ms = timeout_ms
        self.expected = 0
        self.since: int | None = None  # when the oldest hole was seen; None: there is none
        self.lost = 0  # messages that never came, as far as seq can tell
        self._born_at = 0  # timestamp of the birth in force
        self._last_at = 0  # and of the last message taken
        self._held: dict[int, _Held[T]] = {}
        self._digests: list[int | None] = [None] * SEQ_COUNT

    def begin(self, seq: int, timestamp: int | None, digest: int) -> list[T]:
        """A birth of the node: counting starts at its seq. Returns what was held until now, in order."""
        first = self.expected
        left = [self._held[at].item for at in sorted(self._held, key=lambda at: (at - first) % SEQ_COUNT)]
        self._held.clear()
        self.since = None
        self._born_at = self._last_at = timestamp or 0
        self._digests[seq] = digest
        self.expected = (seq + 1) % SEQ_COUNT
        return left

    def judge(self, seq: int, timestamp: int | None, digest: int, item: T, now: int) -> Verdict:
        """Where the message belongs. ``timestamp`` None: it has none that counts."""
        if seq == self.expected:
            if timestamp is None or (timestamp >= self._born_at and timestamp + self.timeout_ms >= self._last_at):
                self._take(seq, timestamp, digest)
                return Verdict.NOW
            # A repetition of an earlier session, or of 256 messages ago, that fits by chance. Or the node's clock was
            # set back: then nothing will fit any more, and the timer must find out.
            if self._digests[seq] == digest:
                return Verdict.DUPLICATE
            if self.since is None:
                self.since = now
            return Verdict.LATE
        if self._digests[seq] == digest:
            return Verdict.DUPLICATE
        if timestamp is not None and timestamp < self._born_at:
            return Verdict.LATE
        if (seq - self.expected) % SEQ_COUNT >= _HALF and (timestamp is None or timestamp < self._last_at):
            return Verdict.LATE
        waiting = self._held.get(seq)
        if waiting is not None:
            return Verdict.DUPLICATE if waiting.digest == digest else Verdict.FULL
        self._held[seq] = _Held(now, timestamp, digest, item)
        if self.since is None:
            self.since = now
        return Verdict.HELD

    def ready(self) -> T | None:
        """The next held message, if nothing before it is missing."""
        held = self._held.pop(self.expected, None)
        if held is None:
            return None
        self._take(self.expected, held.timestamp, held.digest)
        return held.item

    def expired(self, now: int) -> bool:
        """Something has been missing for longer than the timeout."""
        return self.since is not None and due(self.since, self.timeout_ms, now)

    def give_up(self) -> int:
        """Wait no longer for what is missing before the next held message; returns how many those are."""
        self.since = None
        if not self._held:
            return 0
        missing = min((seq - self.expected) % SEQ_COUNT for seq in self._held)
        self.expected = (self.expected + missing) % SEQ_COUNT
        self.lost += missing
        self.since = min(held.at for held in self._held.values())
        return missing

    def _take(self, seq: int, timestamp: int | None, digest: int) -> None:
        self._digests[seq] = digest
        if timestamp is not None:
            self._last_at = timestamp
        self.expected = (seq + 1) % SEQ_COUNT
        if self.since is not None:
            self.since = min((held.at for held in self._held.values()), default=None)

"""The broker's log: lines on a text stream, plain or JSON, and a brake on what every peer can cause."""

import json
import logging
import re
import time
import traceback
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TextIO, final

LEVELS: Final = ("debug", "info", "warning", "error")
FORMS: Final = ("console", "json")
RECENT_LINES: Final = 500  # kept for who asks
RECENT_CHARS_MAX: Final = 1000  # of one of these
NOISE_LINES: Final = 10  # of one kind in a window, before only their number is told
NOISE_KINDS: Final = 30  # told apart; a peer that thinks of new ones shares the brake of the rest
NOISE_WINDOW_MS: Final = 10_000


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class Line(NamedTuple):
    """A line that was logged; numbers count from 1."""

    number: int
    at_ms: int  # wall clock, since 1970
    level: str
    text: str


@final
class Log:
    """One line for each thing that is told; those below ``level`` are left out. ``clock`` gives milliseconds.

    ``form`` "console": ``LEVEL text``. "json": an object with ``time`` (UTC), ``level``, ``message``; with ``kind``
    where the brake holds, ``held_back`` where it tells how many lines it kept, ``error`` and ``traceback`` of defects.
    """

    def __init__(
        self, stream: TextIO, level: str = "info", form: str = "console", clock: Callable[[], int] = _monotonic_ms,
        wall: Callable[[], int] = _wall_ms,
    ) -> None:  # fmt: skip
        self.level = level
        self.form = form
        self._stream = stream
        self._clock = clock
        self._wall = wall
        self._noise: dict[str, int] = {}
        self._window_end_ms = 0
        self._recent: deque[Line] = deque(maxlen=RECENT_LINES)
        self._number = 0

    def info(self, text: str) -> None:
        self._line("info", text)

    def warning(self, text: str) -> None:
        self._line("warning", text)

    def error(self, text: str) -> None:
        self._line("error", text)

    def noise(self, kind: str, text: str, level: str = "info") -> None:
        """A line that may come at any rate: after NOISE_LINES of a kind in a window the rest is only counted."""
        if self._counts(kind):
            self._line(level, text, kind=kind)

    def defect(self, text: str, error: Exception) -> None:
        """An exception that only a defect of ours can cause, with its traceback; braked like noise."""
        if not self._counts("defect"):
            return
        told = f"{text}: {type(error).__name__}: {error}"
        lines = [line for block in traceback.format_tb(error.__traceback__) for line in block.splitlines()]
        if self.form == "json":
            self._line("error", told, kind="defect", error=type(error).__name__, traceback="\n".join(lines))
            return
        for line in (told, *lines):
            self._line("error", line)

    def sweep(self) -> None:
        """End a window that is over."""
        if self._noise and self._clock() >= self._window_end_ms:
            self.flush()

    def flush(self) -> None:
        """End the window: tell how many lines were held back."""
        for kind, count in self._noise.items():
            if count > NOISE_LINES:
                more = count - NOISE_LINES
                self._line("info", f"{kind}: {more} more within {NOISE_WINDOW_MS // 1000} s", kind=kind, held_back=more)
        self._noise.clear()

    def after(self, number: int) -> list[Line]:
        """The lines above this number that are still kept, the oldest first."""
        return [line for line in self._recent if line.number > number]

    def _counts(self, kind: str) -> bool:
        self.sweep()
        if not self._noise:
            self._window_end_ms = self._clock() + NOISE_WINDOW_MS
        if kind not in self._noise and len(self._noise) >= NOISE_KINDS:
            kind = "of other kinds"
        count = self._noise.get(kind, 0) + 1
        self._noise[kind] = count
        return count <= NOISE_LINES

    def _line(self, level: str, text: str, **more: Any) -> None:
        if LEVELS.index(level) < LEVELS.index(self.level):
            return
        # what a peer sent must not be able to forge a line or move the cursor of a terminal
        clean = "".join(c if c.isprintable() else "?" for c in text)
        at_ms = self._wall()
        self._number += 1
        self._recent.append(Line(self._number, at_ms, level, clean[:RECENT_CHARS_MAX]))
        if self.form == "json":
            at = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            told = json.dumps({"time": at, "level": level, "message": clean, **more}, ensure_ascii=True)
        else:
            told = f"{level.upper()} {clean}"
        try:
            self._stream.write(told + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            pass  # a log that nobody can read any more must not stop the broker


@final
class LogHandler(logging.Handler):
    """Takes in what other parts and libraries say through ``logging``; the brake holds for each message template."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        level = "error" if record.levelno >= logging.ERROR else "warning"
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, Exception):
            self._log.defect(record.getMessage(), error)
        else:
            self._log.noise(re.sub("%[sd]", "...", str(record.msg)), record.getMessage(), level)

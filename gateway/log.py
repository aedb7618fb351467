"""The broker's log: plain lines on a text stream, and a brake on what every peer can cause."""

import logging
import re
import time
import traceback
from collections.abc import Callable
from typing import Final, TextIO, final

LEVELS: Final = ("debug", "info", "warning", "error")
NOISE_LINES: Final = 10  # of one kind in a window, before only their number is told
NOISE_KINDS: Final = 30  # told apart; a peer that thinks of new ones shares the brake of the rest
NOISE_WINDOW_MS: Final = 10_000


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


@final
class Log:
    """``LEVEL text`` on one line each; lines below ``level`` are left out. ``clock`` gives milliseconds."""

    def __init__(self, stream: TextIO, level: str = "info", clock: Callable[[], int] = _monotonic_ms) -> None:
        self.level = level
        self._stream = stream
        self._clock = clock
        self._noise: dict[str, int] = {}
        self._window_end_ms = 0

    def info(self, text: str) -> None:
        self._line("info", text)

    def warning(self, text: str) -> None:
        self._line("warning", text)

    def error(self, text: str) -> None:
        self._line("error", text)

    def noise(self, kind: str, text: str, level: str = "info") -> None:
        """A line that may come at any rate: after NOISE_LINES of a kind in a window the rest is only counted."""
        if self._counts(kind):
            self._line(level, text)

    def defect(self, text: str, error: Exception) -> None:
        """An exception that only a defect of ours can cause, with its traceback; braked like noise."""
        if self._counts("defect"):
            self._line("error", f"{text}: {type(error).__name__}: {error}")
            for block in traceback.format_tb(error.__traceback__):
                for line in block.splitlines():
                    self._line("error", line)

    def sweep(self) -> None:
        """End a window that is over."""
        if self._noise and self._clock() >= self._window_end_ms:
            self.flush()

    def flush(self) -> None:
        """End the window: tell how many lines were held back."""
        for kind, count in self._noise.items():
            if count > NOISE_LINES:
                self._line("info", f"{kind}: {count - NOISE_LINES} more within {NOISE_WINDOW_MS // 1000} s")
        self._noise.clear()

    def _counts(self, kind: str) -> bool:
        self.sweep()
        if not self._noise:
            self._window_end_ms = self._clock() + NOISE_WINDOW_MS
        if kind not in self._noise and len(self._noise) >= NOISE_KINDS:
            kind = "of other kinds"
        count = self._noise.get(kind, 0) + 1
        self._noise[kind] = count
        return count <= NOISE_LINES

    def _line(self, level: str, text: str) -> None:
        if LEVELS.index(level) < LEVELS.index(self.level):
            return
        # what a peer sent must not be able to forge a line or move the cursor of a terminal
        clean = "".join(c if c.isprintable() else "?" for c in text)
        try:
            self._stream.write(f"{level.upper()} {clean}\n")
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

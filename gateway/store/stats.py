"""The store's figures about itself."""

import os
from bisect import bisect_left
from typing import Final, final

# upper bounds in ms; the last bucket is open
BOUNDS_MS: Final = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 4096.0)


@final
class CommitTimes:
    """A small histogram of commit times."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_MS) + 1)
        self.last_ms = 0.0
        self.max_ms = 0.0
        self.sum_ms = 0.0

    def add(self, ms: float) -> None:
        """Count one commit."""
        self.counts[bisect_left(BOUNDS_MS, ms)] += 1
        self.sum_ms += ms
        self.last_ms = ms
        self.max_ms = max(self.max_ms, ms)

    def percentile(self, percent: int) -> float:
        """The upper bound in ms of the bucket that holds the percentile; the longest time seen in the open one."""
        left = sum(self.counts) * percent / 100
        if not left:
            return 0.0
        for bound, count in zip(BOUNDS_MS, self.counts, strict=False):
            left -= count
            if left <= 0:
                return min(bound, self.max_ms)
        return self.max_ms


@final
class StoreStats:
    """One reading. Bytes are of the file system's; times in ms."""

    def __init__(self) -> None:
        self.used_bytes = 0  # pages in use
        self.file_bytes = 0  # database and write-ahead log as files
        self.free_bytes = 0  # left on the file system for this user
        self.commits = 0
        self.failed_commits = 0
        self.last_error = ""  # why the last commit or checkpoint failed; empty once one went well
        self.last_commit_ms = 0.0
        self.max_commit_ms = 0.0
        self.p50_commit_ms = 0.0
        self.p99_commit_ms = 0.0
        self.commit_ms_counts: list[int] = []  # as CommitTimes counts them
        self.commit_ms_sum = 0.0
        self.bytes_written = 0  # by the writer since the start, checkpoints included
        self.damaged = 0  # segments that could not be read since the start


@final
class WriteMeter:
    """Bytes that one thread handed to the file system, from the kernel; 0 where the kernel does not count."""

    def __init__(self) -> None:
        self.last = 0
        self._base = 0
        self._fd = -1

    def attach(self) -> None:
        """Measure the calling thread from now on."""
        try:
            self._fd = os.open("/proc/thread-self/io", os.O_RDONLY | os.O_CLOEXEC)
            self._base = self.read()
            self.last = 0
        except OSError:
            self._fd = -1

    def read(self) -> int:
        """Bytes since ``attach``."""
        if self._fd >= 0:
            for line in os.pread(self._fd, 512, 0).splitlines():
                if line.startswith(b"wchar:"):
                    self.last = int(line[6:]) - self._base
        return self.last

    def detach(self) -> None:
        """Stop measuring."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

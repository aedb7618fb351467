"""What the broker says of itself over the control socket: its status, and what metrics and the status page need."""

import os
from collections.abc import Callable
from typing import Any, Final, final

import gateway.core.router
from gateway import __version__
from gateway.bridge.bridge import Bridge
from gateway.core.router import Router
from gateway.log import Log
from gateway.store.clock import ntp_synchronised
from gateway.store.frozen import FrozenStore
from gateway.store.pump import StorePump
from gateway.store.sqlite import Store
from gateway.store.stats import BOUNDS_MS, StoreStats

SESSIONS_MAX: Final = 1000  # in one report


@final
class Reporter:
    """All methods run on the event loop; ``now`` is gateway time in ms."""

    def __init__(
        self, router: Router, bridge: Bridge, store: Store | FrozenStore, pump: StorePump, log: Log,
        listeners: Callable[[], list[str]], uplinks: Callable[[int], list[dict[str, Any]]],
        engine: Callable[[int], dict[str, Any]],
        wear: Callable[[int], dict[str, Any]], safe_mode: Callable[[], dict[str, Any] | None], board: str,
        frozen: str, now: int,
    ) -> None:  # fmt: skip
        self._router = router
        self._bridge = bridge
        self._store = store
        self._pump = pump
        self._log = log
        self._listeners = listeners
        self._uplinks = uplinks
        self._wear = wear
        self._safe_mode = safe_mode
        self._board = board
        self._frozen = frozen
        self._engine = engine
        self._started_ms = now
        loaded = router.status(now)
        self._before = {"counters": loaded["counters"], "drops": loaded["drops"], "sparkplug": bridge.totals()}

    def status(self, now: int) -> dict[str, Any]:
        """What ``forebay status`` shows."""
        return self._status(now, self._store.stats())

    def report(self, now: int, sessions: int, log_after: int) -> dict[str, Any]:
        """The status and more, for who asks each second.

        ``before``: what the counters were when this process started, so that what is left counts from there even when
        a crash cost some of what was counted. ``sessions``: at most so many, the longest queues first. ``log``: lines
        with a number above ``log_after``.
        """
        stats = self._store.stats()
        return {
            "status": self._status(now, stats),
            "before": self._before,
            "pid": os.getpid(),
            "commit_ms": {"bounds": BOUNDS_MS, "counts": stats.commit_ms_counts, "sum": stats.commit_ms_sum},
            "sparkplug": self._bridge.totals(),
            "sessions": self._router.longest(min(sessions, SESSIONS_MAX), now),
            "log": self._log.after(log_after),
        }

    def _status(self, now: int, stats: StoreStats) -> dict[str, Any]:
        status = self._router.status(now)
        store = status["store"]
        assert isinstance(store, dict)
        store["free_bytes"] = stats.free_bytes
        store["file_bytes"] = stats.file_bytes
        store["commits"] = stats.commits
        store["failed_commits"] = stats.failed_commits
        store["bytes_written"] = stats.bytes_written
        store["damaged"] = stats.damaged
        store["commit_ms_p50"] = stats.p50_commit_ms
        store["commit_ms_p99"] = stats.p99_commit_ms
        store["commit_ms_max"] = stats.max_commit_ms
        store["error"] = store["error"] or stats.last_error or None
        return {
            **status,
            "uplinks": self._uplinks(now),
            "board": self._board,
            "wear": self._wear(now),
            "safe_mode": self._safe_mode(),
            "read_only": self._frozen or None,
            "engine": self._engine(now),
            "version": __version__,
            "compiled": compiled(),
            "uptime_s": (now - self._started_ms) // 1000,
            "listeners": self._listeners(),
            "exact": self._pump.exact,
            "clock": {"gateway_ms": now, "synchronised": ntp_synchronised()},
        }


def compiled() -> bool:
    """Whether the core runs as machine code; a failed build leaves it interpreted without a word."""
    return not (gateway.core.router.__file__ or "").endswith(".py")

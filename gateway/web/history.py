"""The last hour of a few figures, for the charts."""

from collections import deque
from typing import Any, Final, final

POINTS: Final = 240
STEP_S: Final = 1.0
STEP_S_MAX: Final = 15.0  # of 240 points that is an hour
SERIES_MAX: Final = 400

Report = dict[str, Any]


@final
class Series:
    """Values over time. It begins with a point a second; when it is full, two become one and the step doubles."""

    def __init__(self) -> None:
        self.step_s = STEP_S
        self.points: deque[float] = deque(maxlen=POINTS)
        self._begun = -1.0  # of the last point

    def add(self, value: float, at: float) -> None:
        """``at`` in seconds of a clock that only goes forward; within a step the highest value counts."""
        if self._begun >= 0 and at < self._begun + self.step_s:
            self.points[-1] = max(self.points[-1], value)
            return
        if len(self.points) == POINTS and self.step_s < STEP_S_MAX:
            both = list(self.points)
            self.points = deque((max(pair) for pair in zip(both[::2], both[1::2], strict=True)), maxlen=POINTS)
            self._begun -= self.step_s
            self.step_s = min(2 * self.step_s, STEP_S_MAX)
        passed = 1 if self._begun < 0 else int((at - self._begun) / self.step_s)
        for _ in range(min(passed, POINTS) - 1):  # nobody asked in between
            self.points.append(self.points[-1])
        self._begun = at if self._begun < 0 else self._begun + passed * self.step_s
        self.points.append(value)


@final
class History:
    """Takes a broker's reports and keeps rates of the whole and queues of the sessions."""

    def __init__(self) -> None:
        self.rates: dict[str, float] = {}  # per second, between the last two reports
        self.series: dict[str, Series] = {}
        self.sessions: dict[str, Series] = {}
        self._last: tuple[float, int, dict[str, float]] | None = None

    def take(self, report: Report, at: float) -> None:
        """``at`` in seconds of a clock that only goes forward."""
        totals = _totals(report)
        last, self._last = self._last, (at, report["pid"], totals)
        if last is None or last[1] != report["pid"] or at <= last[0]:
            self.rates = dict.fromkeys(totals, 0.0)
        else:
            self.rates = {name: (value - last[2][name]) / (at - last[0]) for name, value in totals.items()}
        queue = float(report["status"]["queue"]["messages"])
        for name, value in {**self.rates, "queue": queue}.items():
            self.series.setdefault(name, Series()).add(value, at)
        for row in report["sessions"]:
            name = row["client_id"]
            if name in self.sessions or len(self.sessions) < SERIES_MAX:
                self.sessions.setdefault(name, Series()).add(row["queue_messages"], at)
        if len(self.sessions) >= SERIES_MAX:
            here = {row["client_id"] for row in report["sessions"]}
            self.sessions = {name: series for name, series in self.sessions.items() if name in here}


def _totals(report: Report) -> dict[str, float]:
    counters, status = report["status"]["counters"], report["status"]
    return {
        "in": sum(counters[f"received_qos{qos}"] for qos in range(3)),
        "out": sum(counters[f"sent_qos{qos}"] for qos in range(3)),
        "in_bytes": sum(counters[f"received_bytes_qos{qos}"] for qos in range(3)),
        "out_bytes": sum(counters[f"sent_bytes_qos{qos}"] for qos in range(3)),
        "dropped": sum(status["drops"].values()),
        "written": status["store"]["bytes_written"],
    }

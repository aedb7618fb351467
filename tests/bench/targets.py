"""The figures that must hold, each with what it is taken from."""

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any, Final, NamedTuple

from tests.bench.micro_sparkplug import SCAN, STATE
from tests.bench.workloads import FOREBAY, INTERPRETED, MOSQUITTO

Figures = dict[str, Any]

IDLE_BYTES: Final = 40e6


class Target(NamedTuple):
    text: str
    value: Callable[[Figures], float]  # KeyError or TypeError: not measured
    bound: float
    least: bool = True  # else the most

    def held(self, value: float) -> bool:
        return value >= self.bound if self.least else value <= self.bound


def paired(ours: list[float], theirs: list[float]) -> float:
    """The median ratio of runs that were neighbours in time: what slows the machine for a while slows both."""
    return median(a / b for a, b in zip(ours, theirs, strict=False))


def rate_ratio(figures: Figures, row: str, kind: str = FOREBAY, other_row: str = "", other: str = MOSQUITTO) -> float:
    ours, theirs = figures["rows"][row][kind], figures["rows"][other_row or row][other]
    return paired(ours["rates"], theirs["rates"])


def cpu_ratio(figures: Figures, row: str) -> float:
    found = figures["rows"][row]
    return paired(found[FOREBAY]["cpus"], found[MOSQUITTO]["cpus"])


def latency_ratio(figures: Figures, row: str) -> float:
    found = figures["rows"][row]
    return paired(found[FOREBAY]["delivery_us_p99s"], found[MOSQUITTO]["delivery_us_p99s"])


def cpu_between(figures: Figures, row: str, other: str) -> float:
    """CPU for a message in one row over that in another, of the broker itself."""
    rows = figures["rows"]
    return float(rows[row][FOREBAY]["cpu_s_per_million"] / rows[other][FOREBAY]["cpu_s_per_million"])


def latency(figures: Figures, row: str, what: str) -> float:
    """The 99th percentile, microseconds."""
    return float(figures["rows"][row][FOREBAY][what][1])


def apps_ratio(figures: Figures, where: str) -> float:
    found = figures["scale"]["apps"][FOREBAY]
    return float(found[f"{where}_50"] / found[f"{where}_1"])


def drain_p99_ms(figures: Figures) -> float:
    return float(figures["scale"]["drain"][FOREBAY]["live_beside_us"][1] / 1000)


def paced_ratio(figures: Figures) -> float:
    found = figures["scale"]["drain"][FOREBAY]
    return float(found["paced_beside_us"][1] / found["paced_before_us"][1])


def uplink_ratio(figures: Figures, one: str, other: str) -> float:
    found = figures["scale"]["uplinks"][FOREBAY]
    return float(found[one] / found[other])


def million_mb(group: str, figures: Figures) -> float:
    """RSS of a broker with a million messages queued, from what each of them adds."""
    found = figures["commits"][group]
    return float(found["each"] * 1e6 + IDLE_BYTES) / 1e6


def consumed(name: str, figures: Figures) -> float:
    return float(figures["consume"][name]["rate"])


def _rate(row: str, bound: float, kind: str = FOREBAY) -> Target:
    shown = f"{row} {kind} / mosquitto" if kind != FOREBAY else f"{row} rate / mosquitto"
    return Target(shown, lambda f: rate_ratio(f, row, kind), bound)


def _written(row: str, bound: float) -> Target:
    return Target(
        f"{row} bytes written for each message", lambda f: f["rows"][row][FOREBAY]["written_each"], bound, False
    )


def _paced(row: str) -> list[Target]:
    return [
        Target(f"{row} CPU / mosquitto", lambda f: cpu_ratio(f, row), 1.2, False),
        Target(
            f"{row} delivery p99 / mosquitto",
            lambda f: latency_ratio(f, row),
            1.0,
            False,
        ),
    ]


def _rows() -> list[Target]:
    rates = {"W1": 20, "W2": 30, "W3": 15, "W4/20": 3, "W4/200": 8, "W7": 1.0, "W8": 0.9}
    return [
        *(_rate(row, bound) for row, bound in rates.items()),
        *(_rate(row, 2, INTERPRETED) for row in ("W1", "W2", "W3")),
        _rate("off/50x200", 1.5),
        Target("on/20x20 rate / M/400", lambda f: rate_ratio(f, "on/20x20", FOREBAY, "M/400", FOREBAY), 0.8),
        _written("on/20x20", 20),
        _written("W6/kept", 20),
        Target("W6/kept PUBACK p99, us", lambda f: latency(f, "W6/kept", "puback_us"), 1000, False),
        Target("slow rate / slow/0 rate", lambda f: rate_ratio(f, "slow", FOREBAY, "slow/0", FOREBAY), 0.9),
        Target("spb CPU / spb/off", lambda f: cpu_between(f, "spb", "spb/off"), 1.3, False),
        *_paced("W6/0"),
        *_paced("W6/1"),
    ]


def _scale(name: str, text: str, key: str, bound: float, least: bool = False, unit: float = 1) -> Target:
    return Target(text, lambda f: f["scale"][name][FOREBAY][key] / unit, bound, least)


TARGETS: Final = [
    *_rows(),
    Target("scan of an NDATA of 30 metrics, us", lambda f: f["payloads"][SCAN] / 1000, 3, False),
    Target("decode and state of an NDATA of 30 metrics, us", lambda f: f["payloads"][STATE] / 1000, 60, False),
    Target("commit of 1,000 messages, saturated / idle", lambda f: f["gil"]["ratio"], 5, False),
    _scale("queued", "queued: RSS, MB", "full_rss", 150, unit=1e6),
    _scale("queued", "queued: RSS after the start, MB", "start_rss", 150, unit=1e6),
    _scale("queued", "queued: start to the first CONNACK, s", "start_s", 3),
    _scale("queued", "queued: drained messages/s", "drain_rate", 30_000, True),
    Target("queued: live p99 beside the drain, ms", lambda f: f["scale"]["queued"][FOREBAY]["live_beside_us"][1] / 1000,
           20, False),
    _scale("queued", "queued: disk bytes for each message", "disk_each", 400),
    Target("apps away: bytes written, 50 / 1 readers", lambda f: apps_ratio(f, "away"), 1.1, False),
    Target("apps here: bytes written, 50 / 1 readers", lambda f: apps_ratio(f, "here"), 1.1, False),
    _scale("drain", "drain: messages/s", "rate", 50_000, True),
    Target("uplink: drain / that of a local subscriber", lambda f: uplink_ratio(f, "uplink", "local"), 0.8),
    Target("uplinks: bytes written, 3 / 1", lambda f: uplink_ratio(f, "written_3", "written_1"), 1.1, False),
    Target("drain: live p99 beside it, ms", lambda f: drain_p99_ms(f), 5, False),
    Target("drain at half speed: live p99 beside it / before", lambda f: paced_ratio(f), 2, False),
    *(Target(f"queued in commits of {group}: RSS, MB for 1,000,000", partial(million_mb, group), 150, False)
      for group in ("1", "10", "100")),
    *(Target(f"{name}: QoS 1 messages/s consumed", partial(consumed, name), bound)
      for name, bound in (("client", 20_000), ("handler", 20_000), ("batch", 40_000))),
    _scale("connections", "10,000 connections: bytes each", "10000_bytes_each", 6144),
    _scale("connections", "RSS without clients, MB", "idle_rss", 40, unit=1e6),
]  # fmt: skip


def verdicts(figures: Figures) -> list[tuple[Target, float]]:
    """The targets that were measured, with their values."""
    found = []
    for target in TARGETS:
        try:
            found.append((target, target.value(figures)))
        except (KeyError, TypeError, IndexError):
            continue
    return found

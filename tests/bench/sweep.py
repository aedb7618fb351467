"""How many messages should gather: buffered-msg-count by path and rate, for the table in docs/delivery.md."""

from collections.abc import Mapping, Sequence
from typing import Final, TextIO

from tests.bench.measuring import Bench, Figures
from tests.bench.workloads import FOREBAY, Row

COUNTS: Final = (1, 5, 10, 50)  # 1 = each message leaves with its turn
RATES: Final = (0, 10, 1000, 50_000)  # messages/s; 0 = all it takes
PERSISTENT: Final = "mqtt.persistent-session."
# path -> the beginning of its keys, load, further settings
PATHS: Final[Mapping[str, tuple[str, Mapping[str, float], Mapping[str, object]]]] = {
    "direct": ("mqtt.", {"qos": 0}, {}),
    "device": (PERSISTENT + "device.persisted-messages.", {"qos": 1, "persistent": 1}, {}),
    "application": (
        PERSISTENT + "app.persisted-messages.", {"qos": 1, "persistent": 1}, {"client_type": "load-col*=application"},
    ),
}  # fmt: skip


def row_of(path: str, count: int, rate: int) -> Row:
    """One publisher, one collector."""
    keys, load, settings = PATHS[path]
    shape = {"publishers": 1, "collectors": 1, "window": 1000, "ahead": 8000 if load["qos"] == 0 else 800, **load}
    if rate:
        shape["rate"] = rate
    chosen = {**settings, keys + "write-and-flush": count == 1, keys + "buffered-msg-count": count}
    return Row(f"{path}/{count}/{rate}", "", "sweep", shape, (FOREBAY,), chosen, inflight=1000)


def measure(
    bench: Bench, run_ms: int, counts: Sequence[int] = COUNTS, rates: Sequence[int] = RATES
) -> dict[str, Figures]:
    """By name of the row: rate, syscalls for each message, median and p99 of the time from due to delivered."""
    found: dict[str, Figures] = {}
    for rate in rates:
        for path in PATHS:
            for count in counts:
                row = row_of(path, count, rate)
                long = max(run_ms, 3000) if rate == 10 else run_ms
                one = bench.measure(FOREBAY, row, long)
                found[row.name] = {
                    "rate": one["messages"] / one["seconds"],
                    "cpu_us": one["cpu_s"] / max(one["messages"], 1) * 1e6,
                    "syscalls_each": bench.syscalls(FOREBAY, row) if rate != 10 else None,
                    "delivery_us": one.get("delivery_us"),
                }
    return found


def show(found: Mapping[str, Figures], out: TextIO) -> None:
    """As a table that documentation can take over."""
    print("\nMessages that gather (1 = none), by path and rate\n", file=out)
    print("| path | offered/s | count | messages/s | CPU us/message | syscalls/message | p50 ms | p99 ms |", file=out)
    print("|---|---|---|---|---|---|---|---|", file=out)
    for name, one in found.items():
        path, count, rate = name.split("/")
        cells = [path, f"{int(rate):,}" if rate != "0" else "all it takes", count, f"{one['rate']:,.0f}"]
        cells.append("-" if rate == "10" else f"{one['cpu_us']:.1f}")  # the kernel counts in hundredths of a second
        cells.append("-" if one["syscalls_each"] is None else f"{one['syscalls_each']:.2f}")
        times = one["delivery_us"]
        cells += ["-", "-"] if times is None else [f"{times[0] / 1000:.2f}", f"{times[1] / 1000:.2f}"]
        print(f"| {' | '.join(cells)} |", file=out)

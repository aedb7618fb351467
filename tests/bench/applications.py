"""The log of APPLICATION clients: what many readers of one stream cost, and a long drain beside live traffic."""

from collections.abc import Mapping
from typing import Final

from tests.bench.measuring import Bench, Figures, finished, urgent
from tests.bench.workloads import FOREBAY
from tests.harness import Server

READERS: Final = (1, 50)
APPLICATIONS: Final = {"client_type": "load-*=application", "store.max_bytes": "4GiB"}
GROUP: Final = {"publishers": 20, "window": 20}  # up to 400 messages in each commit
PAYLOAD_BYTES: Final = 200
WINDOW: Final = 200
LIVE_RATE: Final = 1000  # messages/s on the direct path, beside the drain
STREAM_RATE: Final = 1000  # messages/s into the log that is drained
PACED_RUNS: Final = 5  # the one in the middle counts: 10 ms of somebody else decide a 99th percentile


def readers(bench: Bench, count: int, run_ms: int) -> Figures:
    """Bytes written for each message by how many applications read the stream: none of them there, or all of them.

    With a log that is kept everything is written, also what everybody has acknowledged before that. Those that are
    there get a paced stream: at full speed more readers would make smaller commits.
    """
    found: Figures = {}
    for number in READERS:
        shape = {"qos": 1, **GROUP, "messages": count, "warm_ms": 0}
        with bench.serving(FOREBAY, APPLICATIONS, 1000) as broker:
            found[f"away_{number}"] = bench.run_load(broker, {**shape, "away": number})["written"] / count
        here = {"qos": 1, "publishers": 1, "collectors": number, "persistent": 1, "rate": STREAM_RATE, "run_ms": run_ms}
        with bench.serving(FOREBAY, {**APPLICATIONS, "application_log.keep_bytes": "1GiB"}, 1000) as broker:
            one = bench.run_load(broker, here)
            found[f"here_{number}"] = one["written"] * number / one["messages"]
    return found


def drain(bench: Bench, count: int, live_ms: int) -> Figures:
    """One application drains ``count`` messages while more come in: at full speed, then at half of it."""
    found: Figures = {"count": count}
    with bench.serving(FOREBAY, APPLICATIONS, WINDOW) as broker:
        fill(bench, broker, count)
        found["live_before_us"] = live(bench, broker, live_ms)
        found["rate"], found["live_beside_us"] = beside(bench, broker, count, live_ms)
        found["rss"] = broker.rss_bytes()
    pace = max(1, int(found["rate"] / 2))
    part = max(1, min(count, pace * live_ms // 500))
    runs = [at_pace(bench, pace, part, live_ms) for _ in range(PACED_RUNS)]
    return found | sorted(runs, key=lambda run: run["paced_beside_us"][1] / run["paced_before_us"][1])[PACED_RUNS // 2]


def at_pace(bench: Bench, pace: int, count: int, live_ms: int) -> Figures:
    """Live times before and beside a drain that is held to a rate."""
    with bench.serving(FOREBAY, {**APPLICATIONS, "application_log.drain_rate": pace}, WINDOW) as broker:
        fill(bench, broker, count)
        before = live(bench, broker, live_ms)
        rate, times = beside(bench, broker, count, live_ms)
    return {"paced_before_us": before, "pace": pace, "paced_rate": rate, "paced_beside_us": times}


def fill(bench: Bench, broker: Server, count: int) -> None:
    bench.run_load(
        broker,
        {"qos": 1, "payload": PAYLOAD_BYTES, **GROUP, "away": 1, "messages": count, "warm_ms": 0, "order": 1},
    )


def live_load(live_ms: int) -> Mapping[str, object]:
    return {"name": "live", "qos": 1, "publishers": 1, "collectors": 1, "rate": LIVE_RATE, "run_ms": live_ms, "calm": 1}


def live(bench: Bench, broker: Server, live_ms: int) -> list[int]:
    times: list[int] = bench.run_load(broker, live_load(live_ms), *urgent())["delivery_us"]
    return times


def beside(bench: Bench, broker: Server, count: int, live_ms: int) -> tuple[float, list[int]]:
    """Messages/s of the drain, each of them checked to be the next of its publisher; the live times meanwhile."""
    stream = {"publishers": 1, "first": 100, "rate": STREAM_RATE, "calm": 1, "order": 1}
    draining = {"qos": 1, "payload": PAYLOAD_BYTES, "collectors": 1, "resume": 1, "messages": count, "warm_ms": 0}
    reader = bench.start_load(broker, {**draining, **stream})
    times: list[int] = finished(bench.start_load(broker, {**live_load(live_ms), "warm_ms": 100}, *urgent()))[
        "delivery_us"
    ]
    drained = finished(reader)
    return drained["messages"] / drained["seconds"], times

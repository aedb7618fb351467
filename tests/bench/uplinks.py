"""What uplinks cost: a long drain against that of a local subscriber, and the disk for several against that for one."""

import json
from typing import Final

from tests.bench.applications import GROUP, PAYLOAD_BYTES, WINDOW, fill
from tests.bench.measuring import Bench, Figures, finished
from tests.bench.workloads import FOREBAY
from tests.harness import Server, free_port

COUNTS: Final = (1, 3)


def setting(ports: list[int], version: str) -> dict[str, object]:
    """Uplinks for all that the load publishes, with nothing of their own on the wire."""
    rows = [
        {
            "name": f"u{number}",
            "addresses": [f"mqtt://127.0.0.1:{port}"],
            "rules": [{"direction": "out", "filter": "load/#", "qos": 1}],
            "version": version,
            "heartbeat": 0,
            "status_topics": "off",
            "keep_alive": "1h",
            "max_inflight": WINDOW,
        }
        for number, port in enumerate(ports)
    ]
    return {"uplink": json.dumps(rows), "store.max_bytes": "4GiB"}


def rate(bench: Bench, broker: Server, count: int, load: dict[str, object]) -> float:
    """Messages/s of one drain, each message checked to be the next of its publisher."""
    draining = {"qos": 1, "payload": PAYLOAD_BYTES, "collectors": 1, "messages": count, "warm_ms": 0, "order": 1}
    drained = finished(bench.start_load(broker, {**draining, "publishers": 0, **load}))
    return float(drained["messages"] / drained["seconds"])


def drain(bench: Bench, count: int) -> Figures:
    """``count`` messages that waited go to a subscriber here, and over an uplink to one that the broker dials."""
    found: Figures = {"count": count}
    with bench.serving(FOREBAY, {"client_type": "load-*=application", "store.max_bytes": "4GiB"}, WINDOW) as broker:
        fill(bench, broker, count)
        found["local"] = rate(bench, broker, count, {"resume": 1})
    port = free_port()
    with bench.serving(FOREBAY, setting([port], "3.1.1"), WINDOW) as broker:
        stored(bench, broker, count)
        found["uplink"] = rate(bench, broker, count, {"answer": port})
    return found


def stored(bench: Bench, broker: Server, count: int) -> Figures:
    """Publish while no remote is there."""
    return bench.run_load(
        broker, {"qos": 1, "payload": PAYLOAD_BYTES, **GROUP, "messages": count, "warm_ms": 0, "order": 1}
    )


def disk(bench: Bench, count: int) -> Figures:
    """Bytes written for each message by how many uplinks wait for it."""
    found: Figures = {}
    for number in COUNTS:
        ports = [free_port() for _ in range(number)]
        with bench.serving(FOREBAY, setting(ports, "5"), WINDOW) as broker:
            found[f"written_{number}"] = stored(bench, broker, count)["written"] / count
    return found

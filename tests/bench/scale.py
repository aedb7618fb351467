"""What many connections and a long queue cost: memory, disk, the start, the drain."""

import socket
import subprocess
import time
from pathlib import Path
from typing import Final

from tests.bench.measuring import Bench, Figures, cores, finished, pinned, urgent
from tests.bench.workloads import FOREBAY, MOSQUITTO, PERSISTENCE
from tests.harness import Server

LIVE_RATE: Final = 1000  # messages/s beside the drain
LIVE_MS: Final = 2000
QUEUED_PAYLOAD_BYTES: Final = 200
GROUP: Final = {"publishers": 5, "window": 20}  # about 100 messages in each commit
DRAIN_INFLIGHT: Final = 1000
START_TIMEOUT_S: Final = 120.0
SETTLE_S: Final = 0.4


def connections(bench: Bench, kind: str, counts: tuple[int, ...]) -> Figures:
    """RSS without clients, and bytes for each idle connection; for the most of them with a subscription each too."""
    with bench.serving(kind, {}, 20) as broker:
        time.sleep(SETTLE_S)
        found: Figures = {"idle_rss": broker.rss_bytes()}
    for count in counts:
        found[f"{count}_bytes_each"] = connection_bytes(bench, kind, count, 0)
    found["subscribed_bytes_each"] = connection_bytes(bench, kind, max(counts), 1)
    return found


def connection_bytes(bench: Bench, kind: str, count: int, subscriptions: int) -> float:
    """What RSS grows by, for each connection."""
    with bench.serving(kind, {}, 20) as broker:
        time.sleep(SETTLE_S)
        before = broker.rss_bytes()
        keys = {"port": broker.port, "connections": count, "subscriptions": subscriptions}
        line = [str(bench.load), "idle", *(f"{key}={value}" for key, value in keys.items())]
        with pinned(cores()[1]):
            holder = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert holder.stdout is not None
        ready = holder.stdout.readline().strip()
        time.sleep(SETTLE_S)
        after = broker.rss_bytes()
        holder.communicate("")
        if ready != "ready":
            raise RuntimeError(f"{kind}: {count} connections could not be opened")
        return (after - before) / count


def first_connack_s(broker: Server) -> float:
    """Start the process again; seconds until it answers a CONNECT."""
    begin = time.monotonic()
    with pinned(cores()[0]):
        broker.start(wait=False)
    while time.monotonic() < begin + START_TIMEOUT_S:
        try:
            with socket.create_connection(("127.0.0.1", broker.port), 1) as sock:
                sock.settimeout(START_TIMEOUT_S)
                sock.sendall(b"\x10\x11\x00\x04MQTT\x04\x02\x00\x00\x00\x05start")
                if sock.recv(4) == b"\x20\x02\x00\x00":
                    return time.monotonic() - begin
        except OSError:
            time.sleep(0.01)
    raise RuntimeError(f"no CONNACK after {START_TIMEOUT_S} s:\n{broker.log()[-2000:]}")


def disk_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def queued(bench: Bench, kind: str, count: int, live_ms: int = LIVE_MS) -> Figures:
    """Fill the queue of a collector that is away, restart, drain it with live traffic beside."""
    settings = PERSISTENCE if kind == MOSQUITTO else {"store.max_bytes": "4GiB"}
    shape = {"qos": 1, "payload": QUEUED_PAYLOAD_BYTES}
    with bench.serving(kind, settings, DRAIN_INFLIGHT) as broker:
        filled = bench.run_load(broker, {**shape, **GROUP, "away": 1, "messages": count, "warm_ms": 0})
        found: Figures = {"count": count, "fill_rate": filled["messages"] / filled["seconds"]}
        found["written_each"] = filled["written"] / count
        found["full_rss"] = broker.rss_bytes()
        if kind == FOREBAY:
            broker.kill9()  # its start after a crash is the longer one
        else:
            broker.sigterm(120)  # it would have lost them
        found["disk_each"] = disk_bytes(broker.data_dir) / count
        found["start_s"] = first_connack_s(broker)
        found["start_rss"] = broker.rss_bytes()
        live = {
            "name": "live",
            "qos": 1,
            "publishers": 1,
            "collectors": 1,
            "rate": LIVE_RATE,
            "run_ms": live_ms,
            "calm": 1,
        }
        found["live_before_us"] = bench.run_load(broker, live, *urgent())["delivery_us"]
        drain = bench.start_load(broker, {**shape, "collectors": 1, "resume": 1, "messages": count, "warm_ms": 0})
        beside = bench.start_load(broker, live, *urgent())
        drained = finished(drain)
        found["drain_rate"] = drained["messages"] / drained["seconds"]
        found["drain_s"] = drained["seconds"]
        # a broker may starve them all
        found["live_beside_us"] = finished(beside).get("delivery_us", [live_ms * 1000] * 3)
        found["drained_rss"] = broker.rss_bytes()
    return found

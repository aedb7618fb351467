"""Nanoseconds per call on Sparkplug payloads."""

import json
from time import perf_counter_ns
from typing import Final

from gateway.core.limits import Limits
from gateway.core.nodes import BORN
from gateway.mqtt.encode import encode_publish
from gateway.mqtt.packets import V311
from sparkplug.actions import Data
from sparkplug.datatypes import DataType
from sparkplug.host import Host
from sparkplug.model import Metric, Payload
from sparkplug.payload import decode, encode
from sparkplug.scan import Scan
from tests.bench.core_rig import Rig
from tests.bench.micro_codec import call_ns
from tests.bench.micro_core import packets

METRICS = 30
SCAN: Final = "Sparkplug: scan NDATA of 30 metrics"
STATE: Final = "Sparkplug: decode and state of NDATA of 30 metrics"
KINDS: list[tuple[DataType, object]] = [
    (DataType.Double, 21.5),
    (DataType.Int32, -7),
    (DataType.Boolean, True),
    (DataType.Float, 0.5),
    (DataType.Int64, 1_700_000_000_000),
    (DataType.String, "running"),
]


def payload(named: bool) -> Payload:
    """30 metrics of six datatypes; in NDATA by alias alone."""
    found = Payload(1_700_000_000_123, [], 17)
    for index in range(METRICS):
        datatype, value = KINDS[index % len(KINDS)]
        name = f"Line 1/Machine/Signal {index}" if named else None
        found.metrics.append(Metric(name, index, 1_700_000_000_100 + index, datatype, value))  # type: ignore[arg-type]
    return found


def host_ns() -> float:
    """Best time per NDATA of 30 metrics in a host: decoded, put in order, named, its values the live ones."""
    born, topic = encode(birth()), "spBv1.0/g/NDATA/n"
    frames = []
    for seq in range(1, 256):
        said = payload(False)
        said.seq = seq
        frames.append(encode(said, with_datatypes=False))
    best = 1e18
    for _ in range(30):
        host = Host("host")
        host.connect(0)
        host.connected(0)
        host.message("spBv1.0/g/NBIRTH/n", born, 1_700_000_000_000)
        start = perf_counter_ns()
        for frame in frames:
            actions = host.message(topic, frame, 1_700_000_000_200)
        best = min(best, perf_counter_ns() - start)
        (data,) = actions
        assert isinstance(data, Data) and len(data.metrics) == METRICS
    return best / len(frames)


def ingest_ns(qos: int, bridge: bool) -> float:
    """Best time per NDATA of 30 metrics into the log of a collector that is away, its part of the commit included."""
    limits = Limits()
    limits.bridge = bridge
    limits.receive_maximum = 65535
    r = Rig(limits)
    r.subscriber("taker", "spBv1.0/#", 1, True)
    r.leave("taker")
    r.commit()
    r.connect("edge", False)
    r.feed("edge", encode_publish(V311, b"spBv1.0/g/NBIRTH/n", encode(birth()), 0, False, False, 0, b""))
    r.commit()
    best = 1e18
    for turn in range(15):
        frames = []
        for number in range(1, 257):  # goes on in its sequence and its time: nothing is a gap or a repetition
            said = payload(False)
            said.seq = number % 256
            said.timestamp = 1_700_000_000_123 + 256 * turn + number
            body = encode(said, with_datatypes=False)
            packet_id = number if qos else 0
            frames.append(encode_publish(V311, b"spBv1.0/g/NDATA/n", body, qos, False, False, packet_id, b""))
        waiting = packets(r, "edge", b"".join(frames))
        start = perf_counter_ns()
        for packet in waiting:
            r.router.on_packet(r.clients["edge"], packet, r.now)
        batch = r.router.take_batch(r.now)
        best = min(best, perf_counter_ns() - start)
        assert batch is not None and len(batch.records) > 256 * len(body)
        assert not bridge or [event.kind for event in r.router.bridge.take_events()] == [BORN][turn:]
        r.router.on_committed(batch.number, r.now)
        r.take()
    return best / 256


def birth() -> Payload:
    found = payload(True)
    found.seq = 0
    found.metrics.insert(0, Metric("bdSeq", None, found.timestamp, DataType.Int64, 0))
    return found


def rows() -> list[tuple[str, float]]:
    """Names and nanoseconds."""
    aliased, named = payload(False), payload(True)
    types = {index: KINDS[index % len(KINDS)][0] for index in range(METRICS)}
    by_alias, birth = encode(aliased, with_datatypes=False), encode(named)
    scan = Scan()
    return [
        ("Sparkplug: NDATA, QoS 1, kept as any message (bridge off)", ingest_ns(1, False)),
        ("Sparkplug: NDATA, QoS 1, ingested", ingest_ns(1, True)),
        ("Sparkplug: NDATA, QoS 0 raised to 1, ingested", ingest_ns(0, True)),
        (SCAN, call_ns(lambda: scan.read(by_alias, False))),
        ("Sparkplug: decode NDATA of 30 metrics by alias", call_ns(lambda: decode(by_alias, types=types))),
        ("Sparkplug: decode birth of 30 metrics", call_ns(lambda: decode(birth))),
        (STATE, host_ns()),
        ("Sparkplug: encode NDATA of 30 metrics", call_ns(lambda: encode(aliased, with_datatypes=False))),
    ]


if __name__ == "__main__":
    print(json.dumps(dict(rows())))

"""Nanoseconds per call on Sparkplug payloads."""

import json
from time import perf_counter_ns
from typing import Final

from sparkplug.actions import Data
from sparkplug.datatypes import DataType
from sparkplug.host import Host
from sparkplug.model import Metric, Payload
from sparkplug.payload import decode, encode
from sparkplug.scan import Scan
from tests.bench.micro_codec import call_ns

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
        (SCAN, call_ns(lambda: scan.read(by_alias, False))),
        ("Sparkplug: decode NDATA of 30 metrics by alias", call_ns(lambda: decode(by_alias, types=types))),
        ("Sparkplug: decode birth of 30 metrics", call_ns(lambda: decode(birth))),
        (STATE, host_ns()),
        ("Sparkplug: encode NDATA of 30 metrics", call_ns(lambda: encode(aliased, with_datatypes=False))),
    ]


if __name__ == "__main__":
    print(json.dumps(dict(rows())))

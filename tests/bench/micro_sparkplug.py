"""Nanoseconds per call on Sparkplug payloads."""

from sparkplug.datatypes import DataType
from sparkplug.model import Metric, Payload
from sparkplug.payload import decode, encode
from tests.bench.micro_codec import call_ns

METRICS = 30
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


def rows() -> list[tuple[str, float]]:
    """Names and nanoseconds."""
    aliased, named = payload(False), payload(True)
    types = {index: KINDS[index % len(KINDS)][0] for index in range(METRICS)}
    by_alias, birth = encode(aliased, with_datatypes=False), encode(named)
    return [
        ("Sparkplug: decode NDATA of 30 metrics by alias", call_ns(lambda: decode(by_alias, types=types))),
        ("Sparkplug: decode birth of 30 metrics", call_ns(lambda: decode(birth))),
        ("Sparkplug: encode NDATA of 30 metrics", call_ns(lambda: encode(aliased, with_datatypes=False))),
    ]

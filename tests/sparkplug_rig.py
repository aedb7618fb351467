"""Sparkplug messages made by hand, for tests of those who receive them."""

from collections.abc import Sequence
from typing import Final

from sparkplug.datatypes import DataType
from sparkplug.model import DataSet, Metric, Parameter, Payload, PropertySet, PropertyValue, Template
from sparkplug.payload import encode
from sparkplug.source import BD_SEQ, REBIRTH
from sparkplug.topic import NodeId

ID: Final = NodeId("g", "e")
T0: Final = 1_700_000_000_000

# What one recording cannot decide (ids that are unique everywhere), and what is a matter of settings.
UNDECIDED: Final = {
    "tck-id-intro-edge-node-id-uniqueness",
    "tck-id-payloads-nbirth-edge-node-descriptor",
    "tck-id-topic-structure-namespace-unique-device-id",
    "tck-id-operational-behavior-host-application-host-id",
    "tck-id-operational-behavior-host-reordering-param",
}

Message = tuple[str, bytes]
"""Topic and payload."""


def topic(type: str, device: str | None = None, id: NodeId = ID) -> str:
    return f"spBv1.0/{id.group}/{type}/{id.node}" + (f"/{device}" if device else "")


def metric(name: str, alias: int | None = None, value: int | None = 1, at: int = T0) -> Metric:
    return Metric(name, alias, at, DataType.Int32, value, is_null=value is None)


def nbirth(
    at: int = T0,
    *,
    bd_seq: int | None = 0,
    seq: int | None = 0,
    metrics: Sequence[Metric] = (),
    id: NodeId = ID,
) -> Message:
    """One with the metric ``speed``, alias 1, unless others are given."""
    own = [Metric(REBIRTH, None, at, DataType.Boolean, False)]
    if bd_seq is not None:
        own.append(Metric(BD_SEQ, None, at, DataType.Int64, bd_seq))
    return topic("NBIRTH", id=id), encode(Payload(at, [*own, *(metrics or [metric("speed", 1, 10)])], seq))


def dbirth(at: int, seq: int, device: str = "d", metrics: Sequence[Metric] = ()) -> Message:
    """One with the metric ``temp``, alias 2, unless others are given."""
    return topic("DBIRTH", device), encode(Payload(at, list(metrics) or [metric("temp", 2, 20)], seq))


def data(
    at: int | None, seq: int | None, value: int, *, device: str | None = None, alias: int = 1, historical: bool = False
) -> Message:
    """Data of the node, or of a device (then give the alias too)."""
    one = Metric(None, alias, at, DataType.Int32, value, is_historical=historical)
    return topic("DDATA" if device else "NDATA", device), encode(Payload(at, [one], seq), with_datatypes=False)


def ddeath(at: int, seq: int, device: str = "d") -> Message:
    return topic("DDEATH", device), encode(Payload(at, [], seq))


def ndeath(bd_seq: int | None = 0, id: NodeId = ID) -> Message:
    metrics = [] if bd_seq is None else [Metric(BD_SEQ, None, None, DataType.Int64, bd_seq)]
    return topic("NDEATH", id=id), encode(Payload(None, metrics))


def rich_metrics() -> list[Metric]:
    """One of each structure that has requirements of its own."""
    members = [Metric("x", datatype=DataType.Int32, value=1), Metric("y", datatype=DataType.Double, value=0.5)]
    size = Parameter("size", DataType.Int32, 4)
    properties = PropertySet(
        {
            "Quality": PropertyValue(DataType.Int32, 192),
            "unit": PropertyValue(DataType.String, "mm"),
            "more": PropertyValue(DataType.PropertySet, PropertySet({"a": PropertyValue(DataType.Boolean, True)})),
            "list": PropertyValue(DataType.PropertySetList, [PropertySet({})]),
        }
    )
    table = DataSet(["a", "b"], [DataType.Int32, DataType.String], [[1, "x"], [2, None]])
    return [
        Metric("Axis", datatype=DataType.Template, value=Template("1", members, [size], None, True)),
        Metric("axis 1", datatype=DataType.Template, value=Template("1", members, [size], "Axis")),
        Metric("speed", datatype=DataType.Int32, value=1, properties=properties),
        Metric("empty", datatype=DataType.String, value=None),
        Metric("table", datatype=DataType.DataSet, value=table),
    ]

"""What is unusual in a payload that was decoded nevertheless."""

from collections.abc import Iterator
from typing import Final

from sparkplug.datatypes import ARRAYS, WRITERS, DataType, type_name
from sparkplug.model import Metric, Payload
from sparkplug.reading import METRIC_FIELDS, label

_SEQ_MAX: Final = 255
_FIELDS: Final = {number: name for name, number in METRIC_FIELDS.items()}
_USUAL: Final[dict[int, str]] = {
    **{datatype: field for datatype, (field, _) in WRITERS.items()},
    **dict.fromkeys(ARRAYS, "bytes_value"),
    DataType.DataSet: "dataset_value",
    DataType.Template: "template_value",
}


def remarks(payload: Payload) -> list[str]:
    """A line for each, empty for a payload as the specification has it.

    What only the message type decides (a seq in a command, a birth without datatypes) is not said here.
    """
    return [*_of_payload(payload), *(f"{label(m.name, m.alias)}: {said}" for m in payload.metrics for said in _of(m))]


def _of_payload(payload: Payload) -> Iterator[str]:
    if payload.timestamp is None:
        yield "no timestamp"
    if payload.seq is not None and payload.seq > _SEQ_MAX:
        yield f"seq {payload.seq} is beyond {_SEQ_MAX}"
    if payload.unknown:
        yield "unknown fields"
    names: dict[int, str | None] = {}
    for metric in payload.metrics:
        if metric.alias is not None and names.setdefault(metric.alias, metric.name) != metric.name:
            yield f"alias {metric.alias} means {names[metric.alias]!r} and {metric.name!r}"


def _of(metric: Metric) -> Iterator[str]:
    datatype, field = metric.datatype, _FIELDS.get(metric.wire)
    if metric.name is None and metric.alias is None:
        yield "no alias either"
    if datatype and datatype not in _USUAL:
        yield f"{type_name(datatype)} is no datatype of a metric"
    elif field is not None and not metric.is_null and datatype and field != _USUAL[datatype]:
        yield f"{type_name(datatype)} in {field}"
    if metric.is_null and field is not None:
        yield f"is_null, and yet a {field}"
    elif not metric.is_null and field is None:
        yield "no value, and not is_null"
    if metric.unknown:
        yield "unknown fields"

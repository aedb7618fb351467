"""Payloads as plain data for JSON, in which nothing is rounded.

Integer and floating values are strings, since many readers of JSON keep 53 bits and JSON has no NaN; so are aliases.
Bytes are hex. Elements of arrays are numbers up to 32 bits and strings beyond. What is absent is left out, except
``seq`` of a payload, which is null where there is none.
"""

from typing import Any, Final

from sparkplug.datatypes import DataType, type_name
from sparkplug.model import DataSet, MetaData, Metric, Payload, PropertySet, PropertyValue, Template

_NARROW_ARRAYS: Final = frozenset(
    {
        DataType.Int8Array,
        DataType.Int16Array,
        DataType.Int32Array,
        DataType.UInt8Array,
        DataType.UInt16Array,
        DataType.UInt32Array,
    }
)


def plain(payload: Payload) -> dict[str, Any]:
    """A payload as dicts, lists and strings."""
    found: dict[str, Any] = {}
    if payload.timestamp is not None:
        found["timestamp"] = payload.timestamp
    found["seq"] = payload.seq
    found["metrics"] = [_metric(metric) for metric in payload.metrics]
    if payload.uuid is not None:
        found["uuid"] = payload.uuid
    if payload.body is not None:
        found["body"] = payload.body.hex()
    if payload.unknown:
        found["unknown"] = payload.unknown.hex()
    return found


def _metric(metric: Metric) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if metric.name is not None:
        found["name"] = metric.name
    if metric.alias is not None:
        found["alias"] = str(metric.alias)
    if metric.datatype:
        found["datatype"] = _type(metric.datatype)
    if metric.timestamp is not None:
        found["timestamp"] = metric.timestamp
    if metric.value is not None:
        found["value"] = _value(metric.value, metric.datatype)
    for flag in ("is_historical", "is_transient", "is_null"):
        if getattr(metric, flag):
            found[flag] = True
    if metric.metadata is not None:
        found["metadata"] = _metadata(metric.metadata)
    if metric.properties is not None:
        found["properties"] = _properties(metric.properties)
    if metric.unknown:
        found["unknown"] = metric.unknown.hex()
    return found


def _type(datatype: int) -> str | int:
    return type_name(datatype) if datatype <= DataType.DateTimeArray else datatype


def _value(value: object, datatype: int) -> Any:
    if isinstance(value, list):
        return value if datatype in _NARROW_ARRAYS else [_scalar(element) for element in value]
    if isinstance(value, DataSet):
        rows = [[_scalar(cell) for cell in row] for row in value.rows]
        return {"columns": value.columns, "types": [_type(number) for number in value.types], "rows": rows}
    if isinstance(value, Template):
        return _template(value)
    return _scalar(value)


def _scalar(value: object) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, bytes):
        return value.hex()
    return repr(value)


def _template(template: Template) -> dict[str, Any]:
    found: dict[str, Any] = {"is_definition": template.is_definition}
    if template.template_ref is not None:
        found["template_ref"] = template.template_ref
    if template.version is not None:
        found["version"] = template.version
    found["metrics"] = [_metric(metric) for metric in template.metrics]
    found["parameters"] = [
        {"name": each.name, "type": _type(each.type), "value": _scalar(each.value)} for each in template.parameters
    ]
    return found


def _metadata(metadata: MetaData) -> dict[str, Any]:
    found = {
        "is_multi_part": metadata.is_multi_part,
        "content_type": metadata.content_type,
        "size": None if metadata.size is None else str(metadata.size),
        "seq": None if metadata.seq is None else str(metadata.seq),
        "file_name": metadata.file_name,
        "file_type": metadata.file_type,
        "md5": metadata.md5,
        "description": metadata.description,
    }
    return {name: value for name, value in found.items() if value is not None}


def _properties(properties: PropertySet) -> dict[str, Any]:
    return {key: _property(value) for key, value in properties.values.items()}


def _property(entry: PropertyValue) -> dict[str, Any]:
    found: dict[str, Any] = {"type": _type(entry.type)}
    value = entry.value
    if isinstance(value, PropertySet):
        found["value"] = _properties(value)
    elif isinstance(value, list):
        found["value"] = [_properties(each) for each in value]
    elif value is not None:
        found["value"] = _scalar(value)
    if entry.is_null:
        found["is_null"] = True
    return found

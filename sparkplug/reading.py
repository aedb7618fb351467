"""From protobuf messages to the model: lenient where senders are known to differ, and bounded.

The loop over metrics is what decoding costs, so it reads the usual case itself and leaves the rest to functions. A
field that has a value other than its default is there; only a default needs to be asked whether it is.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from sparkplug.arrays import unpack
from sparkplug.datatypes import ARRAYS, READERS, DataType, Read, read_scalar, text, type_name
from sparkplug.model import (
    NESTING_MAX,
    Cell,
    DataSet,
    MetaData,
    Metric,
    Parameter,
    PayloadError,
    PropertySet,
    PropertyValue,
    Template,
)
from sparkplug.sparkplug_b_pb2 import Payload as Pb

METRIC_FIELDS: Final = {field.name: field.number for field in Pb.Metric.DESCRIPTOR.oneofs_by_name["value"].fields}
PROPERTY_FIELDS: Final = {
    field.name: field.number for field in Pb.PropertyValue.DESCRIPTOR.oneofs_by_name["value"].fields
}
PARAMETER_FIELDS: Final = {
    field.name: field.number for field in Pb.Template.Parameter.DESCRIPTOR.oneofs_by_name["value"].fields
}

ARRAY_BYTES_OF_AN_ITEM: Final = 16
"""What reading that many bytes of an array costs is about what reading a cell costs."""


def _usual() -> list[tuple[str, int, Read] | None]:
    """For each datatype the field in which the specification puts it: its name, number and how it is read."""
    table: list[tuple[str, int, Read] | None] = [None] * (max(DataType) + 1)
    wide = (DataType.Int64, DataType.UInt64, DataType.DateTime, DataType.Double)
    for datatype, readers in READERS.items():
        field = list(readers)[datatype in wide]
        table[datatype] = (field, METRIC_FIELDS[field], readers[field])
    return table


_USUAL: Final = _usual()


def label(name: object, alias: int | None) -> str:
    """How an error names a metric."""
    return f"metric {name!r}" if name is not None else "metric without a name" if alias is None else f"alias {alias}"


class Reader:
    """One decoding: what is left of its budget, and whether fields that the schema does not know are to be kept."""

    __slots__ = ("_items", "_keep")

    def __init__(self, items_max: int, keep: bool) -> None:
        self._items = items_max
        self._keep = keep

    def _spend(self, items: int) -> None:
        self._items -= items
        if self._items < 0:
            raise PayloadError("too many metrics, properties, cells and elements for one payload")

    def unknown(self, message: Message) -> bytes:
        """The fields of a message that the schema does not know, as they came."""
        if not self._keep or not len(UnknownFieldSet(message)):
            return b""
        rest = type(message)()
        rest.CopyFrom(message)
        for descriptor, _ in rest.ListFields():
            rest.ClearField(descriptor.name)
        return rest.SerializeToString()

    def metrics(self, raw: Iterable[Any], count: int, types: Mapping[Any, int], depth: int = 0) -> list[Metric]:
        """The metrics of a payload or a template; ``types`` gives the datatype, by alias or name, of those without."""
        self._spend(count)
        found: list[Metric] = []
        for message in raw:
            name = message.name
            if not name:
                name = "" if message.HasField("name") else None
            alias = message.alias
            if not alias and not message.HasField("alias"):
                alias = None
            try:
                if name.__class__ is bytes:
                    raise PayloadError("the name is not valid UTF-8")
                datatype = message.datatype
                if not datatype and types:
                    datatype = types.get(alias) or types.get(name, 0)
                is_null = message.is_null
                usual = _USUAL[datatype] if datatype < 35 else None
                value = None
                if usual is not None and not is_null:
                    field, wire, read = usual
                    value = getattr(message, field)
                    if not value and not message.HasField(field):
                        value = None
                    elif read is not None:
                        value = read(value)
                unknown = b""
                if value is None:
                    value, wire, unknown = self._unusual(message, datatype, is_null, depth)
                if self._keep:
                    unknown += self.unknown(message)
                timestamp = message.timestamp
                found.append(
                    Metric(
                        name,
                        alias,
                        timestamp if timestamp or message.HasField("timestamp") else None,
                        datatype,
                        value,
                        message.is_historical,
                        message.is_transient,
                        is_null,
                        self._metadata(message.metadata) if message.HasField("metadata") else None,
                        self._properties(message.properties, 1) if message.HasField("properties") else None,
                        wire,
                        unknown,
                    )
                )
            except PayloadError as error:
                raise error.within(label(name, alias)) from None
        return found

    def _unusual(self, message: Any, datatype: int, is_null: bool, depth: int) -> tuple[Any, int, bytes]:
        """Value, field and what must be kept of it: nulls, arrays, data sets, templates, other fields than usual."""
        field = message.WhichOneof("value")
        if field is None:
            return None, 0, b""
        wire = METRIC_FIELDS[field]
        if is_null:
            return None, wire, b""
        raw = getattr(message, field)
        known = 0 < datatype <= DataType.DateTimeArray and datatype not in (
            DataType.PropertySet,
            DataType.PropertySetList,
        )
        if field == "extension_value":
            return None, wire, Pb.Metric(extension_value=raw).SerializeToString()
        if field == "dataset_value" and (datatype == DataType.DataSet or not known):
            return self._dataset(raw), wire, b""
        if field == "template_value" and (datatype == DataType.Template or not known):
            return self._template(raw, depth + 1), wire, b""
        if not known:
            return (text(raw) if field == "string_value" else raw), wire, b""
        if field == "bytes_value" and datatype in ARRAYS:
            self._spend(len(raw) // ARRAY_BYTES_OF_AN_ITEM)
            return unpack(raw, datatype), wire, b""
        return read_scalar(field, raw, datatype), wire, b""

    def _metadata(self, message: Any) -> MetaData:
        found = {descriptor.name: value for descriptor, value in message.ListFields()}
        for name in ("content_type", "file_name", "file_type", "md5", "description"):
            if found.get(name).__class__ is bytes:
                raise PayloadError(f"{name} of the metadata is not valid UTF-8")
        return MetaData(**found, unknown=self.unknown(message))

    def _properties(self, message: Any, depth: int) -> PropertySet:
        keys, values = message.keys, message.values
        if len(keys) != len(values):
            raise PayloadError(f"a property set has {len(keys)} keys and {len(values)} values")
        if depth > NESTING_MAX:
            raise PayloadError(f"property sets are nested deeper than {NESTING_MAX}")
        self._spend(len(keys))
        found: dict[str, PropertyValue] = {}
        for key, value in zip(keys, values, strict=True):
            try:
                found[text(key)] = self._property(value, depth)
            except PayloadError as error:
                raise error.within(f"property {key!r}") from None
        return PropertySet(found, self.unknown(message))

    def _property(self, message: Any, depth: int) -> PropertyValue:
        datatype, is_null = message.type, message.is_null
        field = message.WhichOneof("value")
        wire = 0 if field is None else PROPERTY_FIELDS[field]
        found = PropertyValue(datatype, None, is_null, wire, self.unknown(message))
        if field is None or is_null:
            return found
        raw = getattr(message, field)
        if field == "extension_value":
            found.unknown += Pb.PropertyValue(extension_value=raw).SerializeToString()
        elif field == "propertyset_value" and datatype in (DataType.PropertySet, 0):
            found.value = self._properties(raw, depth + 1)
        elif field == "propertysets_value" and datatype in (DataType.PropertySetList, 0):
            self._spend(len(raw.propertyset))
            found.value = [self._properties(each, depth + 1) for each in raw.propertyset]
        else:
            found.value = self._basic(field, raw, datatype)
        return found

    def _basic(self, field: str, raw: Any, datatype: int) -> Any:
        """The value of a property, parameter or cell that is neither null nor a set of properties."""
        if datatype in READERS:
            return read_scalar(field, raw, datatype)
        if 0 < datatype <= DataType.DateTimeArray or field.startswith("property"):
            raise PayloadError(f"{field} does not hold a {type_name(datatype)}")
        return text(raw) if field == "string_value" else raw

    def _dataset(self, message: Any) -> DataSet:
        columns, types = list(message.columns), list(message.types)
        if len(columns) != len(types):
            raise PayloadError(f"a data set has {len(columns)} columns and {len(types)} types")
        for column in columns:
            text(column)
        self._spend(len(message.rows) * max(len(types), 1))
        rows: list[list[Cell]] = []
        for row in message.rows:
            cells = row.elements
            if len(cells) != len(types):
                raise PayloadError(f"row {len(rows)} of a data set has {len(cells)} cells for {len(types)} columns")
            found: list[Cell] = []
            for cell, datatype, column in zip(cells, types, columns, strict=True):
                field = cell.WhichOneof("value")
                if field is None or field == "extension_value":
                    found.append(None)
                    continue
                try:
                    found.append(self._basic(field, getattr(cell, field), datatype))
                except PayloadError as error:
                    raise error.within(f"row {len(rows)}, column {column!r}") from None
            rows.append(found)
        return DataSet(columns, types, rows, self.unknown(message))

    def _template(self, message: Any, depth: int) -> Template:
        if depth > NESTING_MAX:
            raise PayloadError(f"templates are nested deeper than {NESTING_MAX}")
        members = message.metrics
        return Template(
            text(message.version) if message.HasField("version") else None,
            self.metrics(members, len(members), {}, depth),
            self._parameters(message.parameters),
            text(message.template_ref) if message.HasField("template_ref") else None,
            message.is_definition,
            self.unknown(message),
        )

    def _parameters(self, messages: Any) -> list[Parameter]:
        self._spend(len(messages))
        found: list[Parameter] = []
        for message in messages:
            try:
                name, datatype = text(message.name), message.type
                field = message.WhichOneof("value")
                wire = 0 if field is None else PARAMETER_FIELDS[field]
                unknown = self.unknown(message)
                value: Cell = None
                if field == "extension_value":
                    unknown += Pb.Template.Parameter(extension_value=message.extension_value).SerializeToString()
                elif field is not None:
                    value = self._basic(field, getattr(message, field), datatype)
            except PayloadError as error:
                raise error.within(f"parameter {message.name!r}") from None
            found.append(Parameter(name, datatype, value, wire, unknown))
        return found

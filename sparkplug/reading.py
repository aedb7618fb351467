"""From protobuf messages to the model: lenient where senders are known to differ, and bounded.

The loop over metrics is what decoding costs, so it reads the usual case itself and leaves the rest to functions. A
field that has a value other than its default is there; only a default needs to be asked whether it is, and not even
that where the tag of such a field, which the bytes of a canonical payload would show, is nowhere in them.
"""

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.message import DecodeError, Message

from sparkplug.arrays import unpack
from sparkplug.datatypes import ARRAYS, NO_UTF8, READERS, DataType, Read, read_scalar, text, type_name
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

ARRAY_BYTES_OF_AN_ITEM: Final = 64
"""Reading that many bytes of an array, or an eighth of them of booleans, costs about what reading a cell costs."""

TOO_MANY: Final = "too many metrics, properties, cells and elements for one payload"


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


def parse(data: bytes) -> Pb:
    """The protobuf message. Raises PayloadError."""
    message = Pb()
    try:
        message.ParseFromString(data)
    except UnicodeDecodeError:  # where protobuf has no C part; the other gives bytes for such a string
        raise PayloadError(NO_UTF8) from None
    except DecodeError:
        raise PayloadError("not a Sparkplug B payload: the protobuf message is damaged or too deep") from None
    return message


class Reader:
    """One decoding: what is left of its budget, and what does not occur in these bytes and need not be looked for.

    ``canonical``: the bytes, if they are those that protobuf makes of the message. ``keep``: there are fields that the
    schema does not know, somewhere.
    """

    __slots__ = (
        "_empty_names",
        "_flags",
        "_items",
        "_keep",
        "_metadata_there",
        "_properties_there",
        "_zero_aliases",
        "_zero_times",
    )

    def __init__(self, canonical: bytes | None, items_max: int, keep: bool) -> None:
        self._items = items_max
        self._keep = keep
        # what a name of no bytes, an alias of 0, a timestamp of 0 and flags that are true look like; then two tags
        data = b"\x0a\0\x10\0\x18\0\x28\1\x42\x4a" if canonical is None else canonical
        self._empty_names = b"\x0a\0" in data
        self._zero_aliases = b"\x10\0" in data
        self._zero_times = b"\x18\0" in data
        self._flags = b"\x28\1" in data or b"\x30\1" in data or b"\x38\1" in data
        self._metadata_there = b"\x42" in data
        self._properties_there = b"\x4a" in data

    def _spend(self, items: int) -> None:
        self._items -= items
        if self._items < 0:
            raise PayloadError(TOO_MANY)

    def unknown(self, message: Message) -> bytes:
        """The fields of a message that the schema does not know, as they came."""
        if not self._keep:
            return b""
        rest = type(message)()
        rest.CopyFrom(message)
        for descriptor, _ in rest.ListFields():
            rest.ClearField(descriptor.name)
        return rest.SerializeToString()

    def metrics(self, raw: Any, types: Mapping[Any, int], depth: int = 0) -> list[Metric]:
        """The metrics of a payload or a template; ``types`` gives the datatype, by alias or name, of those without."""
        self._spend(len(raw))
        empty_names, zero_aliases, zero_times = self._empty_names, self._zero_aliases, self._zero_times
        flags, keep = self._flags, self._keep
        metadata_there, properties_there = self._metadata_there, self._properties_there
        is_historical = is_transient = is_null = False
        found: list[Metric] = []
        add, new = found.append, object.__new__
        for message in raw:
            name = message.name or ("" if empty_names and message.HasField("name") else None)
            alias = message.alias or (0 if zero_aliases and message.HasField("alias") else None)
            try:
                if name.__class__ is bytes:
                    raise PayloadError("the name is not valid UTF-8")
                datatype = message.datatype
                if not datatype and types:
                    datatype = types.get(alias) or types.get(name, 0)
                if flags:
                    is_historical, is_transient, is_null = message.is_historical, message.is_transient, message.is_null
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
                if keep:
                    unknown += self.unknown(message)
                # half of what a call of the class costs
                metric = new(Metric)
                metric.name = name
                metric.alias = alias
                metric.timestamp = message.timestamp or (0 if zero_times and message.HasField("timestamp") else None)
                metric.datatype = datatype
                metric.value = value
                metric.is_historical = is_historical
                metric.is_transient = is_transient
                metric.is_null = is_null
                metric.metadata = (
                    self._metadata(message.metadata) if metadata_there and message.HasField("metadata") else None
                )
                metric.properties = (
                    self._properties(message.properties, 1)
                    if properties_there and message.HasField("properties")
                    else None
                )
                metric.wire = wire
                metric.unknown = unknown
                add(metric)
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
            size = len(raw) * 8 if datatype == DataType.BooleanArray else len(raw)
            self._spend(size // ARRAY_BYTES_OF_AN_ITEM)
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
        return Template(
            text(message.version) if message.HasField("version") else None,
            self.metrics(message.metrics, {}, depth),
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

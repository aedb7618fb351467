"""From the model to protobuf messages: strict, one form for each value."""

from typing import Any, Final

from google.protobuf.message import DecodeError

from sparkplug.arrays import pack
from sparkplug.datatypes import ARRAYS, BASIC, UINT64_MAX, WRITERS, DataType, type_name, utf8, wrong_type
from sparkplug.model import (
    NESTING_MAX,
    DataSet,
    MetaData,
    Metric,
    Parameter,
    PayloadError,
    PropertySet,
    PropertyValue,
    Template,
)
from sparkplug.reading import METRIC_FIELDS, PARAMETER_FIELDS, PROPERTY_FIELDS, label

_METRIC_NAMES: Final = {number: name for name, number in METRIC_FIELDS.items()}
_PROPERTY_NAMES: Final = {number: name for name, number in PROPERTY_FIELDS.items()}
_PARAMETER_NAMES: Final = {number: name for name, number in PARAMETER_FIELDS.items()}
_RAW: Final = {
    "int_value": (int, 0xFFFFFFFF),
    "long_value": (int, UINT64_MAX),
    "float_value": (float, 0),
    "double_value": (float, 0),
    "boolean_value": (bool, 0),
    "string_value": (str, 0),
    "bytes_value": (bytes, 0),
}
_QUALITIES: Final = (0, 192, 500)


def number(value: object, what: str) -> int:
    """An unsigned integer of 64 bits."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= UINT64_MAX:
        raise PayloadError(f"{what} must be an integer from 0 to 2^64-1, not {value!r}")
    return value


def string(value: object, what: str) -> str:
    """Text that UTF-8 can hold."""
    if not isinstance(value, str):
        raise PayloadError(f"{what} must be a string, not {value!r}")
    utf8(value, what)
    return value


def _known(datatype: object) -> bool:
    """Whether this is a datatype that a value can have."""
    return isinstance(datatype, int) and 0 < datatype <= DataType.DateTimeArray


def _raw(message: Any, field: str | None, value: object, datatype: int) -> None:
    """A value without a datatype, or of one that nobody knows, into the field where it came from."""
    if field not in _RAW:
        raise PayloadError(f"a value needs a datatype, not {type_name(datatype)}")
    expected, highest = _RAW[field]
    if type(value) is not expected or (isinstance(value, int) and expected is int and not 0 <= value <= highest):
        raise PayloadError(f"{value!r} does not fit into {field}")
    setattr(message, field, string(value, "the value") if expected is str else value)


class Writer:
    """One encoding; ``uint32_as_long`` for peers that read a UInt32 in long_value only."""

    __slots__ = ("_uint32_as_long",)

    def __init__(self, uint32_as_long: bool) -> None:
        self._uint32_as_long = uint32_as_long

    def metric(self, message: Any, metric: Metric, with_datatype: bool = True, depth: int = 0) -> None:
        """Fills a Metric message.

        Raises:
            PayloadError: names the metric.
        """
        try:
            self._metric(message, metric, with_datatype, depth)
        except PayloadError as error:
            raise error.within(label(metric.name, metric.alias)) from None

    def _metric(self, message: Any, metric: Metric, with_datatype: bool, depth: int) -> None:
        if metric.name is None and metric.alias is None:
            raise PayloadError("neither a name nor an alias")
        if metric.name is not None:
            message.name = string(metric.name, "the name")
        if metric.alias is not None:
            message.alias = number(metric.alias, "the alias")
        if metric.timestamp is not None:
            message.timestamp = number(metric.timestamp, "the timestamp")
        self._datatype(message, "datatype", metric.datatype, with_datatype)
        if metric.is_historical:
            message.is_historical = True
        if metric.is_transient:
            message.is_transient = True
        if metric.metadata is not None:
            self._metadata(message.metadata, metric.metadata)
        if metric.properties is not None:
            self._properties(message.properties, metric.properties, 1)
        if metric.is_null and metric.value is not None:
            raise PayloadError("is_null, and yet a value")
        if metric.value is not None:
            self._value(message, metric, depth)
        elif metric.is_null or not metric.unknown:
            message.is_null = True
        put_back(message, metric.unknown)

    def _value(self, message: Any, metric: Metric, depth: int) -> None:
        value, datatype = metric.value, metric.datatype
        if datatype in WRITERS:
            self._scalar(message, value, datatype)
        elif datatype in ARRAYS:
            message.bytes_value = pack(value, datatype)
        elif datatype == DataType.DataSet or (not _known(datatype) and isinstance(value, DataSet)):
            if not isinstance(value, DataSet):
                raise wrong_type(value, datatype)
            self._dataset(message.dataset_value, value)
        elif datatype == DataType.Template or (not _known(datatype) and isinstance(value, Template)):
            if not isinstance(value, Template):
                raise wrong_type(value, datatype)
            self._template(message.template_value, value, depth + 1)
        elif _known(datatype):
            raise PayloadError(f"{type_name(datatype)} is not allowed here")
        else:
            _raw(message, _METRIC_NAMES.get(metric.wire), value, datatype)

    def _datatype(self, message: Any, field: str, datatype: object, with_datatype: bool = True) -> None:
        if not isinstance(datatype, int) or not 0 <= datatype <= 0xFFFFFFFF:
            raise PayloadError(f"{datatype!r} is no datatype")
        if datatype and with_datatype:
            setattr(message, field, datatype)

    def _scalar(self, message: Any, value: object, datatype: int) -> None:
        field, write = WRITERS[datatype]
        wire = write(value)
        if field == "string_value":
            string(wire, "the value")
        elif self._uint32_as_long and datatype == DataType.UInt32:
            field = "long_value"
        setattr(message, field, wire)

    def _metadata(self, message: Any, metadata: MetaData) -> None:
        if metadata.is_multi_part is not None:
            message.is_multi_part = bool(metadata.is_multi_part)
        for name in ("size", "seq"):
            if (value := getattr(metadata, name)) is not None:
                setattr(message, name, number(value, f"{name} of the metadata"))
        for name in ("content_type", "file_name", "file_type", "md5", "description"):
            if (value := getattr(metadata, name)) is not None:
                setattr(message, name, string(value, f"{name} of the metadata"))
        message.SetInParent()
        put_back(message, metadata.unknown)

    def _properties(self, message: Any, properties: PropertySet, depth: int) -> None:
        if not isinstance(properties, PropertySet):
            raise wrong_type(properties, DataType.PropertySet)
        if depth > NESTING_MAX:
            raise PayloadError(f"property sets are nested deeper than {NESTING_MAX}")
        message.SetInParent()
        for key, value in properties.values.items():
            try:
                message.keys.append(string(key, "the key of a property"))
                self._property(message.values.add(), key, value, depth)
            except PayloadError as error:
                raise error.within(f"property {key!r}") from None
        put_back(message, properties.unknown)

    def _property(self, message: Any, key: str, entry: PropertyValue, depth: int) -> None:
        datatype, value = entry.type, entry.value
        self._datatype(message, "type", datatype)
        if entry.is_null and value is not None:
            raise PayloadError("is_null, and yet a value")
        if key == "Quality" and (datatype not in (DataType.Int32, 0) or value not in (*_QUALITIES, None)):
            raise PayloadError("Quality is an Int32 of 0 (bad), 192 (good) or 500 (stale)")
        if value is None:
            if entry.is_null or not entry.unknown:
                message.is_null = True
        elif isinstance(value, PropertySet) and datatype in (DataType.PropertySet, 0):
            self._properties(message.propertyset_value, value, depth + 1)
        elif isinstance(value, list) and datatype in (DataType.PropertySetList, 0):
            message.propertysets_value.SetInParent()
            for each in value:
                self._properties(message.propertysets_value.propertyset.add(), each, depth + 1)
        else:
            self._basic(message, value, datatype, _PROPERTY_NAMES.get(entry.wire))
        put_back(message, entry.unknown)

    def _basic(self, message: Any, value: object, datatype: int, field: str | None) -> None:
        """Into a cell, a parameter or a property."""
        if not _known(datatype):
            _raw(message, field, value, datatype)
        elif datatype in BASIC:
            self._scalar(message, value, datatype)
        elif datatype in (DataType.PropertySet, DataType.PropertySetList):
            raise wrong_type(value, datatype)
        else:
            raise PayloadError(f"{type_name(datatype)} is not allowed here")

    def _dataset(self, message: Any, dataset: DataSet) -> None:
        width = len(dataset.columns)
        if len(dataset.types) != width:
            raise PayloadError(f"a data set has {width} columns and {len(dataset.types)} types")
        message.num_of_columns = width
        for column, datatype in zip(dataset.columns, dataset.types, strict=True):
            message.columns.append(string(column, "the name of a column"))
            if datatype not in BASIC:
                raise PayloadError(f"column {column!r} cannot hold a {type_name(datatype)}")
            message.types.append(datatype)
        for index, row in enumerate(dataset.rows):
            if len(row) != width:
                raise PayloadError(f"row {index} of a data set has {len(row)} cells for {width} columns")
            cells = message.rows.add().elements
            for column, datatype, value in zip(dataset.columns, dataset.types, row, strict=True):
                cell = cells.add()
                if value is None:
                    continue
                try:
                    self._scalar(cell, value, datatype)
                except PayloadError as error:
                    raise error.within(f"row {index}, column {column!r}") from None
        put_back(message, dataset.unknown)

    def _template(self, message: Any, template: Template, depth: int) -> None:
        if depth > NESTING_MAX:
            raise PayloadError(f"templates are nested deeper than {NESTING_MAX}")
        if template.is_definition and template.template_ref:
            raise PayloadError("a template's definition has no template_ref")
        if not template.is_definition and not template.template_ref:
            raise PayloadError("a template's instance needs the name of its definition as template_ref")
        if template.version is not None:
            message.version = string(template.version, "the version of a template")
        if template.template_ref:
            message.template_ref = string(template.template_ref, "template_ref")
        message.is_definition = bool(template.is_definition)
        for metric in template.metrics:
            self.metric(message.metrics.add(), metric, True, depth)
        for parameter in template.parameters:
            try:
                self._parameter(message.parameters.add(), parameter)
            except PayloadError as error:
                raise error.within(f"parameter {parameter.name!r}") from None
        put_back(message, template.unknown)

    def _parameter(self, message: Any, parameter: Parameter) -> None:
        message.name = string(parameter.name, "the name")
        self._datatype(message, "type", parameter.type)
        if parameter.value is not None:
            self._basic(message, parameter.value, parameter.type, _PARAMETER_NAMES.get(parameter.wire))
        put_back(message, parameter.unknown)


def put_back(message: Any, unknown: bytes) -> None:
    """Puts back fields that the schema does not know."""
    if not unknown:
        return
    try:
        message.MergeFromString(unknown)
    except DecodeError:
        raise PayloadError("what was kept as unknown is no protobuf") from None

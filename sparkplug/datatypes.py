"""The datatypes of Sparkplug B: their numbers, and how a value of each lies in the fields of a message.

Reading is lenient: a negative Int8 or Int16 may be masked to its width or sign-extended, and an integer may come in
``int_value`` or in ``long_value`` whatever its width. Writing is strict: one form for each type, and a value of another
type or out of range is a ``PayloadError``.
"""

import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, Final

from sparkplug.model import PayloadError

Wire = int | float | bool | str | bytes
Read = Callable[[Any], Any] | None
Write = Callable[[Any], Any]


class DataType(IntEnum):
    """Numbers of the datatypes [tck-id-payloads-metric-datatype-value]."""

    Unknown = 0
    Int8 = 1
    Int16 = 2
    Int32 = 3
    Int64 = 4
    UInt8 = 5
    UInt16 = 6
    UInt32 = 7
    UInt64 = 8
    Float = 9
    Double = 10
    Boolean = 11
    String = 12
    DateTime = 13
    Text = 14
    UUID = 15
    DataSet = 16
    Bytes = 17
    File = 18
    Template = 19
    PropertySet = 20
    PropertySetList = 21
    Int8Array = 22
    Int16Array = 23
    Int32Array = 24
    Int64Array = 25
    UInt8Array = 26
    UInt16Array = 27
    UInt32Array = 28
    UInt64Array = 29
    FloatArray = 30
    DoubleArray = 31
    BooleanArray = 32
    StringArray = 33
    DateTimeArray = 34


BASIC: Final = frozenset(DataType(number) for number in range(1, 15))
"""What a cell, a parameter and a property may hold (a property also sets of properties)."""

ARRAYS: Final = frozenset(DataType(number) for number in range(22, 35))

NO_UTF8: Final = "a string is not valid UTF-8"

UINT64_MAX: Final = (1 << 64) - 1
FLOAT_MAX: Final = 3.4028234663852886e38


def type_name(datatype: int) -> str:
    """The specification's name of a datatype, or its number."""
    try:
        return DataType(datatype).name
    except ValueError:
        return f"datatype {datatype}"


def _out_of_range(value: object, datatype: DataType) -> PayloadError:
    return PayloadError(f"{value} is out of the range of {datatype.name}")


def _signed(datatype: DataType, bits: int) -> Callable[[int], int]:
    """From its width (masked), or sign-extended to 32 or 64 bits."""
    half, whole = 1 << (bits - 1), 1 << bits
    low32, high32 = (1 << 32) - half, 1 << 32
    low64 = (1 << 64) - half

    def read(raw: int) -> int:
        if raw < half:
            return raw
        if raw < whole:
            return raw - whole
        if low32 <= raw < high32:
            return raw - high32
        if raw >= low64:
            return raw - (1 << 64)
        raise _out_of_range(raw, datatype)

    return read


def _int64_of_int(raw: int) -> int:
    """An Int64 in the 32 bits of int_value comes from a sender whose integers are signed."""
    return raw - (1 << 32) if raw & 0x80000000 else raw


def _unsigned(datatype: DataType, bits: int) -> Callable[[int], int]:
    highest = (1 << bits) - 1

    def read(raw: int) -> int:
        if raw > highest:
            raise _out_of_range(raw, datatype)
        return raw

    return read


def _single(raw: float) -> float:
    """A Float that came in the field of a Double is the nearest that a Float can say; beyond its range it stays."""
    try:
        nearest: float = struct.unpack("<f", struct.pack("<f", raw))[0]
    except OverflowError:
        return raw
    return nearest


def text(value: str) -> str:
    """A string field; protobuf gives bytes where they are no UTF-8."""
    if value.__class__ is not str:
        raise PayloadError(NO_UTF8)
    return value


def utf8(value: str, what: str) -> bytes:
    """Text as UTF-8, which holds no surrogates."""
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise PayloadError(f"{what} holds a surrogate, which UTF-8 does not") from None


def _readers() -> dict[int, dict[str, Read]]:
    found: dict[int, dict[str, Read]] = {}
    for datatype, bits in zip(INTEGERS, (8, 16, 32, 64) * 2, strict=True):
        read = (_signed if datatype <= DataType.Int64 else _unsigned)(datatype, bits)
        found[datatype] = {"int_value": read, "long_value": read}
    found[DataType.Int64]["int_value"] = _int64_of_int
    for datatype in (DataType.UInt64, DataType.DateTime):
        found[datatype] = {"int_value": None, "long_value": None}
    found[DataType.UInt32]["int_value"] = None
    found[DataType.Float] = {"float_value": None, "double_value": _single}
    found[DataType.Double] = {"float_value": None, "double_value": None}
    found[DataType.Boolean] = {"boolean_value": None}
    for datatype in (DataType.String, DataType.Text, DataType.UUID):
        found[datatype] = {"string_value": text}
    for datatype in (DataType.Bytes, DataType.File):
        found[datatype] = {"bytes_value": None}
    return found


INTEGERS: Final = tuple(DataType(number) for number in range(1, 9))
READERS: Final[Mapping[int, Mapping[str, Read]]] = _readers()
"""For each scalar datatype the fields in which it is accepted, and how a value there is read (None: as it is)."""


def read_scalar(field: str, raw: Any, datatype: int) -> Any:
    """The value of a scalar datatype that came in a field.

    Raises:
        PayloadError: this datatype does not come in that field, or the value is out of its range.
    """
    readers = READERS.get(datatype)
    if readers is None or field not in readers:
        raise PayloadError(f"{field} does not hold a {type_name(datatype)}")
    read = readers[field]
    return raw if read is None else read(raw)


def _integer(datatype: DataType, lowest: int, highest: int, mask: int) -> Write:
    def write(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise wrong_type(value, datatype)
        if not lowest <= value <= highest:
            raise _out_of_range(value, datatype)
        return value & mask

    return write


def _of_class(datatype: DataType, expected: type) -> Write:
    def write(value: Any) -> Any:
        if not isinstance(value, expected):
            raise wrong_type(value, datatype)
        return value

    return write


def _floating(datatype: DataType, highest: float) -> Write:
    def write(value: Any) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise wrong_type(value, datatype)
        try:
            number = float(value)
        except OverflowError:
            raise _out_of_range(value, datatype) from None
        if highest < abs(number) < float("inf"):
            raise _out_of_range(value, datatype)
        return number

    return write


def wrong_type(value: object, datatype: int) -> PayloadError:
    """The error for a Python value that is not what the datatype holds."""
    return PayloadError(f"a value of type {type(value).__name__} is no {type_name(datatype)}")


def _writers() -> dict[int, tuple[str, Write]]:
    found: dict[int, tuple[str, Write]] = {}
    for datatype, bits in zip(INTEGERS, (8, 16, 32, 64) * 2, strict=True):
        field, mask = ("long_value", UINT64_MAX) if bits == 64 else ("int_value", 0xFFFFFFFF)
        if datatype <= DataType.Int64:
            half = 1 << (bits - 1)
            found[datatype] = (field, _integer(datatype, -half, half - 1, mask))
        else:
            found[datatype] = (field, _integer(datatype, 0, (1 << bits) - 1, mask))
    found[DataType.DateTime] = ("long_value", _integer(DataType.DateTime, 0, UINT64_MAX, UINT64_MAX))
    found[DataType.Float] = ("float_value", _floating(DataType.Float, FLOAT_MAX))
    found[DataType.Double] = ("double_value", _floating(DataType.Double, float("inf")))
    found[DataType.Boolean] = ("boolean_value", _of_class(DataType.Boolean, bool))
    for datatype in (DataType.String, DataType.Text, DataType.UUID):
        found[datatype] = ("string_value", _of_class(datatype, str))
    for datatype in (DataType.Bytes, DataType.File):
        found[datatype] = ("bytes_value", _of_class(datatype, bytes))
    return found


WRITERS: Final[Mapping[int, tuple[str, Write]]] = _writers()


def write_scalar(value: Any, datatype: int) -> tuple[str, Wire]:
    """The field for a value of a scalar datatype and what to put there: signed integers sign-extended.

    Raises:
        PayloadError: no scalar datatype, or a value of another type or out of range.
    """
    found = WRITERS.get(datatype)
    if found is None:
        raise PayloadError(f"{type_name(datatype)} is not allowed here")
    field, write = found
    wire: Wire = write(value)
    return field, wire

"""Datatypes: numbers, and every form of a value in its field."""

import math
from typing import Any

import pytest

from sparkplug.datatypes import ARRAYS, BASIC, READERS, WRITERS, DataType, read_scalar, type_name, write_scalar
from sparkplug.model import PayloadError


def test_the_numbers() -> None:
    assert [datatype.value for datatype in DataType] == list(range(35))
    assert (DataType.Int8, DataType.UInt64, DataType.DateTime, DataType.UUID) == (1, 8, 13, 15)
    assert (DataType.PropertySetList, DataType.Int8Array, DataType.DateTimeArray) == (21, 22, 34)
    assert {DataType.Int8, DataType.Text} < BASIC
    assert DataType.UUID not in BASIC
    assert len(ARRAYS) == 13
    assert READERS.keys() == WRITERS.keys() == BASIC | {DataType.UUID, DataType.Bytes, DataType.File}


def test_names() -> None:
    assert type_name(3) == "Int32"
    assert type_name(99) == "datatype 99"


@pytest.mark.parametrize(
    ("datatype", "raw", "value"),
    [
        (DataType.Int8, 127, 127),
        (DataType.Int8, 128, -128),
        (DataType.Int8, 2**32 - 128, -128),
        (DataType.Int8, 2**64 - 1, -1),
        (DataType.Int16, 0x8000, -32768),
        (DataType.Int16, 2**32 - 1, -1),
        (DataType.Int32, 2**31, -(2**31)),
        (DataType.Int32, 2**64 - 5, -5),
        (DataType.Int64, 2**63, -(2**63)),
        (DataType.UInt8, 255, 255),
        (DataType.UInt16, 65535, 65535),
        (DataType.UInt32, 2**32 - 1, 2**32 - 1),
        (DataType.UInt64, 2**64 - 1, 2**64 - 1),
        (DataType.DateTime, 2**64 - 1, 2**64 - 1),
    ],
)
def test_integers_are_read_in_every_form(datatype: DataType, raw: int, value: int) -> None:
    assert read_scalar("long_value", raw, datatype) == value
    if raw < 2**32:
        assert read_scalar("int_value", raw, datatype) == value


def test_an_int64_in_32_bits_is_signed() -> None:
    assert read_scalar("int_value", 2**32 - 1, DataType.Int64) == -1
    assert read_scalar("int_value", 5, DataType.Int64) == 5


@pytest.mark.parametrize(
    ("datatype", "raw"),
    [
        (DataType.Int8, 256),
        (DataType.Int8, 2**32 - 129),
        (DataType.Int8, 2**32),
        (DataType.Int8, 2**64 - 129),
        (DataType.Int16, 0x10000),
        (DataType.Int32, 2**32),
        (DataType.UInt8, 256),
        (DataType.UInt16, 65536),
        (DataType.UInt32, 2**32),
    ],
)
def test_integers_beyond_their_width_are_refused(datatype: DataType, raw: int) -> None:
    with pytest.raises(PayloadError, match=f"out of the range of {datatype.name}"):
        read_scalar("long_value", raw, datatype)


@pytest.mark.parametrize(
    ("field", "datatype"),
    [
        ("double_value", DataType.Int32),
        ("int_value", DataType.Boolean),
        ("int_value", DataType.Double),
        ("bytes_value", DataType.String),
        ("string_value", DataType.Bytes),
        ("boolean_value", DataType.UInt8),
        ("bytes_value", DataType.DataSet),
        ("int_value", 99),
    ],
)
def test_no_datatype_is_read_from_just_any_field(field: str, datatype: int) -> None:
    with pytest.raises(PayloadError, match=f"{field} does not hold a {type_name(datatype)}"):
        read_scalar(field, 1, datatype)


def test_floats_are_read_in_both_widths() -> None:
    for datatype in (DataType.Float, DataType.Double):
        assert read_scalar("float_value", 0.5, datatype) == read_scalar("double_value", 0.5, datatype) == 0.5
    assert read_scalar("double_value", 4.2e-69, DataType.Float) == 0.0
    assert read_scalar("double_value", 0.1, DataType.Float) == 0.10000000149011612
    assert read_scalar("double_value", 1e300, DataType.Float) == 1e300  # no Float at all, and none is written of it
    assert read_scalar("double_value", 4.2e-69, DataType.Double) == 4.2e-69


def test_what_is_no_utf8_is_refused() -> None:
    for datatype in (DataType.String, DataType.Text, DataType.UUID):
        assert read_scalar("string_value", "x", datatype) == "x"
        with pytest.raises(PayloadError, match="not valid UTF-8"):
            read_scalar("string_value", b"\xff", datatype)


@pytest.mark.parametrize(
    ("datatype", "value", "written"),
    [
        (DataType.Int8, -128, ("int_value", 2**32 - 128)),
        (DataType.Int16, -1, ("int_value", 2**32 - 1)),
        (DataType.Int32, -(2**31), ("int_value", 2**31)),
        (DataType.Int64, -1, ("long_value", 2**64 - 1)),
        (DataType.UInt8, 255, ("int_value", 255)),
        (DataType.UInt16, 65535, ("int_value", 65535)),
        (DataType.UInt32, 2**32 - 1, ("int_value", 2**32 - 1)),
        (DataType.UInt64, 2**64 - 1, ("long_value", 2**64 - 1)),
        (DataType.DateTime, 5, ("long_value", 5)),
        (DataType.Float, 1, ("float_value", 1.0)),
        (DataType.Float, -math.inf, ("float_value", -math.inf)),
        (DataType.Double, 5e-324, ("double_value", 5e-324)),
        (DataType.Boolean, False, ("boolean_value", False)),
        (DataType.String, "", ("string_value", "")),
        (DataType.Text, "t", ("string_value", "t")),
        (DataType.UUID, "u", ("string_value", "u")),
        (DataType.Bytes, b"", ("bytes_value", b"")),
        (DataType.File, b"f", ("bytes_value", b"f")),
    ],
)
def test_every_datatype_is_written_in_one_form(datatype: DataType, value: Any, written: tuple[str, Any]) -> None:
    field, raw = write_scalar(value, datatype)
    assert (field, raw) == written
    assert type(raw) is type(written[1])
    assert read_scalar(field, raw, datatype) == value


@pytest.mark.parametrize(
    ("datatype", "value", "reason"),
    [
        (DataType.Int8, 128, "128 is out of the range of Int8"),
        (DataType.Int8, -129, "out of the range"),
        (DataType.Int16, 32768, "out of the range"),
        (DataType.Int32, 2**31, "out of the range"),
        (DataType.Int64, 2**63, "out of the range"),
        (DataType.UInt8, -1, "out of the range"),
        (DataType.UInt64, 2**64, "out of the range"),
        (DataType.DateTime, -1, "out of the range"),
        (DataType.Int32, True, "a value of type bool is no Int32"),
        (DataType.Int32, 1.0, "a value of type float is no Int32"),
        (DataType.Int32, "1", "a value of type str is no Int32"),
        (DataType.Float, 1e39, "out of the range of Float"),
        (DataType.Double, 10**400, "out of the range of Double"),
        (DataType.Double, True, "a value of type bool is no Double"),
        (DataType.Boolean, 1, "a value of type int is no Boolean"),
        (DataType.String, b"x", "a value of type bytes is no String"),
        (DataType.Bytes, "x", "a value of type str is no Bytes"),
        (DataType.DataSet, 1, "DataSet is not allowed here"),
        (DataType.Unknown, 1, "Unknown is not allowed here"),
    ],
)
def test_what_is_no_value_of_a_datatype_is_not_written(datatype: DataType, value: Any, reason: str) -> None:
    with pytest.raises(PayloadError, match=reason):
        write_scalar(value, datatype)

"""Arrays packed into bytes: the examples, the forms, and what is no array."""

from typing import Any

import pytest

from sparkplug.arrays import pack, unpack
from sparkplug.datatypes import DataType
from sparkplug.model import PayloadError

EXAMPLES = [
    (DataType.Int8Array, [-23, 123], "e97b"),
    (DataType.Int16Array, [-30000, 30000], "d08a3075"),
    (DataType.Int32Array, [-1, 315338746], "fffffffffaafcb12"),
    (DataType.Int64Array, [-4270929666821191986], "ce0672ac189cbac4"),
    (DataType.UInt8Array, [23, 250], "17fa"),
    (DataType.UInt16Array, [30, 52360], "1e0088cc"),
    (DataType.UInt32Array, [52, 3293969225], "3400000049fb55c4"),
    (DataType.UInt64Array, [52], "3400000000000000"),
    (DataType.FloatArray, [0.5, -2.0], "0000003f000000c0"),
    (DataType.DoubleArray, [0.5], "000000000000e03f"),
    (DataType.BooleanArray, [False, False, True, True, False, True, False, False, True, True], "0a00000034c0"),
    (DataType.BooleanArray, [True], "0100000080"),
    (DataType.StringArray, ["ABC", "", "hüt"], "414243000068c3bc7400"),
    (DataType.DateTimeArray, [2**64 - 1, 0], "ffffffffffffffff0000000000000000"),
]


@pytest.mark.parametrize(("datatype", "value", "packed"), EXAMPLES)
def test_examples(datatype: DataType, value: list[Any], packed: str) -> None:
    assert pack(value, datatype).hex() == packed
    assert unpack(bytes.fromhex(packed), datatype) == value


@pytest.mark.parametrize("datatype", sorted({datatype for datatype, _, _ in EXAMPLES}))
def test_empty_arrays(datatype: DataType) -> None:
    assert unpack(pack([], datatype), datatype) == []


def test_the_last_string_may_lack_its_nul() -> None:
    assert unpack(b"a\0b", DataType.StringArray) == ["a", "b"]


@pytest.mark.parametrize(
    ("datatype", "raw", "reason"),
    [
        (DataType.Int16Array, b"\0", "1 bytes are no Int16Array"),
        (DataType.DoubleArray, bytes(9), "9 bytes are no DoubleArray"),
        (DataType.BooleanArray, b"\0\0\0", "count of 4 bytes"),
        (DataType.BooleanArray, b"\x09\0\0\0\0", "a BooleanArray of 9 has 2 bytes of bits, not 1"),
        (DataType.BooleanArray, b"\x08\0\0\0\0\0", "a BooleanArray of 8 has 1 bytes of bits, not 2"),
        (DataType.StringArray, b"\xff\0", "not valid UTF-8"),
    ],
)
def test_what_is_no_array_is_refused(datatype: DataType, raw: bytes, reason: str) -> None:
    with pytest.raises(PayloadError, match=reason):
        unpack(raw, datatype)


@pytest.mark.parametrize(
    ("datatype", "value", "reason"),
    [
        (DataType.Int8Array, b"\1", "a value of type bytes is no Int8Array"),
        (DataType.Int8Array, [128], "128 is out of the range of Int8"),
        (DataType.UInt8Array, [True], "a value of type bool is no UInt8"),
        (DataType.FloatArray, [1e39], "out of the range of Float"),
        (DataType.DoubleArray, ["1"], "a value of type str is no Double"),
        (DataType.BooleanArray, [1], "a value of type int is no Boolean"),
        (DataType.StringArray, ["a\0b"], "holds a NUL"),
        (DataType.StringArray, ["\ud800"], "surrogate"),
        (DataType.StringArray, [b"a"], "a value of type bytes is no String"),
    ],
)
def test_what_an_array_cannot_hold_is_not_packed(datatype: DataType, value: Any, reason: str) -> None:
    with pytest.raises(PayloadError, match=reason):
        pack(value, datatype)

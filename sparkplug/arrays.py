"""Arrays as Sparkplug packs them into bytes: little-endian numbers, booleans as bits, strings with a NUL after each.

Booleans: a 32 bit count (little-endian), then the bits, the first in the highest bit of the first byte. The byte order
of floats is the one that the specification's text gives; its examples show the other.
"""

import struct
from typing import Any, Final

from sparkplug.datatypes import DataType, type_name, utf8, write_scalar, wrong_type
from sparkplug.model import PayloadError

_NUMBERS: Final[dict[int, tuple[str, int, DataType]]] = {
    DataType.Int8Array: ("b", 1, DataType.Int8),
    DataType.Int16Array: ("h", 2, DataType.Int16),
    DataType.Int32Array: ("i", 4, DataType.Int32),
    DataType.Int64Array: ("q", 8, DataType.Int64),
    DataType.UInt8Array: ("B", 1, DataType.UInt8),
    DataType.UInt16Array: ("H", 2, DataType.UInt16),
    DataType.UInt32Array: ("I", 4, DataType.UInt32),
    DataType.UInt64Array: ("Q", 8, DataType.UInt64),
    DataType.FloatArray: ("f", 4, DataType.Float),
    DataType.DoubleArray: ("d", 8, DataType.Double),
    DataType.DateTimeArray: ("Q", 8, DataType.DateTime),
}
"""struct's letter, the bytes of an element and the datatype of an element."""

_BITS: Final = tuple(tuple(bool(byte >> (7 - bit) & 1) for bit in range(8)) for byte in range(256))


def unpack(raw: bytes, datatype: int) -> list[Any]:
    """The elements of an array.

    Raises:
        PayloadError: the bytes are no array of that datatype.
    """
    if datatype == DataType.BooleanArray:
        return _unpack_booleans(raw)
    if datatype == DataType.StringArray:
        return _unpack_strings(raw)
    letter, size, _ = _NUMBERS[datatype]
    count, rest = divmod(len(raw), size)
    if rest:
        raise PayloadError(f"{len(raw)} bytes are no {type_name(datatype)}: {size} for each element")
    return list(struct.unpack(f"<{count}{letter}", raw))


def _unpack_booleans(raw: bytes) -> list[bool]:
    if len(raw) < 4:
        raise PayloadError("a BooleanArray begins with a count of 4 bytes")
    count = int.from_bytes(raw[:4], "little")
    if (count + 7) // 8 != len(raw) - 4:
        raise PayloadError(f"a BooleanArray of {count} has {(count + 7) // 8} bytes of bits, not {len(raw) - 4}")
    found: list[bool] = []
    for byte in raw[4:]:
        found += _BITS[byte]
    del found[count:]
    return found


def _unpack_strings(raw: bytes) -> list[str]:
    try:
        found = raw.decode().split("\0")
    except UnicodeDecodeError:
        raise PayloadError("a string of a StringArray is not valid UTF-8") from None
    if not found[-1]:
        del found[-1]
    return found


def pack(value: object, datatype: int) -> bytes:
    """The bytes of an array.

    Raises:
        PayloadError: no list, or an element of another type or out of range.
    """
    if not isinstance(value, list | tuple):
        raise wrong_type(value, datatype)
    if datatype == DataType.BooleanArray:
        return _pack_booleans(value)
    if datatype == DataType.StringArray:
        return _pack_strings(value)
    letter, _, element = _NUMBERS[datatype]
    for number in value:
        write_scalar(number, element)
    return struct.pack(f"<{len(value)}{letter}", *value)


def _pack_booleans(value: "list[Any] | tuple[Any, ...]") -> bytes:
    packed = bytearray((len(value) + 7) // 8)
    for index, bit in enumerate(value):
        if not isinstance(bit, bool):
            raise wrong_type(bit, DataType.Boolean)
        if bit:
            packed[index >> 3] |= 0x80 >> (index & 7)
    return len(value).to_bytes(4, "little") + bytes(packed)


def _pack_strings(value: "list[Any] | tuple[Any, ...]") -> bytes:
    packed = bytearray()
    for string in value:
        if not isinstance(string, str):
            raise wrong_type(string, DataType.String)
        if "\0" in string:
            raise PayloadError("a string of a StringArray holds a NUL, which ends a string there")
        packed += utf8(string, "a string") + b"\0"
    return bytes(packed)

"""Whatever can be said comes back the same, and whatever bytes come are a payload or one PayloadError."""

import struct
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparkplug.datatypes import ARRAYS, BASIC, DataType
from sparkplug.model import (
    DataSet,
    MetaData,
    Metric,
    Parameter,
    Payload,
    PayloadError,
    PropertySet,
    PropertyValue,
    Template,
)
from sparkplug.payload import decode, encode
from tests.unit.sparkplug.vectors import EVERY

UINT64 = st.integers(0, 2**64 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SIGNED = {bits: st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)}
UNSIGNED = {bits: st.integers(0, 2**bits - 1) for bits in (8, 16, 32, 64)}
FLOAT = st.floats(width=32, allow_nan=False)
DOUBLE = st.floats(allow_nan=False)

SCALARS: dict[DataType, st.SearchStrategy[Any]] = {
    DataType.Int8: SIGNED[8],
    DataType.Int16: SIGNED[16],
    DataType.Int32: SIGNED[32],
    DataType.Int64: SIGNED[64],
    DataType.UInt8: UNSIGNED[8],
    DataType.UInt16: UNSIGNED[16],
    DataType.UInt32: UNSIGNED[32],
    DataType.UInt64: UNSIGNED[64],
    DataType.Float: FLOAT,
    DataType.Double: DOUBLE,
    DataType.Boolean: st.booleans(),
    DataType.String: TEXT,
    DataType.DateTime: UINT64,
    DataType.Text: TEXT,
    DataType.UUID: st.uuids().map(str),
    DataType.Bytes: st.binary(max_size=8),
    DataType.File: st.binary(max_size=8),
}
ELEMENTS: dict[DataType, st.SearchStrategy[Any]] = {
    **{
        DataType[f"{kind.name}Array"]: values
        for kind, values in SCALARS.items()
        if f"{kind.name}Array" in DataType.__members__
    },
    DataType.StringArray: TEXT.filter(lambda text: "\0" not in text),
}
ARRAY_VALUES = {datatype: st.lists(values, max_size=20) for datatype, values in ELEMENTS.items()}


def cells(datatype: DataType) -> st.SearchStrategy[Any]:
    return st.none() | SCALARS[datatype]


@st.composite
def datasets(draw: st.DrawFn) -> DataSet:
    types = draw(st.lists(st.sampled_from(sorted(BASIC)), max_size=4))
    columns = [draw(TEXT) for _ in types]
    rows = draw(st.lists(st.tuples(*(cells(datatype) for datatype in types)).map(list), max_size=3))
    return DataSet(columns, list(types), rows)


@st.composite
def property_sets(draw: st.DrawFn, depth: int = 0) -> PropertySet:
    found: dict[str, PropertyValue] = {}
    for key in draw(st.lists(TEXT.filter(lambda text: text != "Quality"), max_size=3)):
        kinds = sorted(BASIC) if depth > 2 else [*sorted(BASIC), DataType.PropertySet, DataType.PropertySetList]
        kind = draw(st.sampled_from(kinds))
        if draw(st.booleans()):
            found[key] = PropertyValue(kind, None, is_null=True)
        elif kind == DataType.PropertySet:
            found[key] = PropertyValue(kind, draw(property_sets(depth + 1)))
        elif kind == DataType.PropertySetList:
            found[key] = PropertyValue(kind, draw(st.lists(property_sets(depth + 1), max_size=2)))
        else:
            found[key] = PropertyValue(kind, draw(SCALARS[kind]))
    return PropertySet(found)


@st.composite
def templates(draw: st.DrawFn, depth: int = 0) -> Template:
    definition = draw(st.booleans())
    parameters = [
        Parameter(draw(TEXT), kind, draw(cells(kind)))
        for kind in draw(st.lists(st.sampled_from(sorted(BASIC)), max_size=3))
    ]
    return Template(
        draw(st.none() | TEXT),
        draw(st.lists(metrics(depth + 1), max_size=3)),
        parameters,
        None if definition else draw(TEXT.filter(bool)),
        definition,
    )


@st.composite
def metrics(draw: st.DrawFn, depth: int = 0) -> Metric:
    kinds = [*SCALARS, *ARRAY_VALUES, DataType.DataSet, *([] if depth > 2 else [DataType.Template])]
    kind = draw(st.sampled_from(kinds))
    null = draw(st.booleans())
    name = draw(st.none() | TEXT)
    metadata = MetaData(draw(st.none() | st.booleans()), *draw(st.tuples(st.none() | TEXT, st.none() | UINT64)))
    return Metric(
        name,
        draw(UINT64 if name is None else st.none() | UINT64),
        draw(st.none() | UINT64),
        kind,
        None if null else draw(value_of(kind, depth)),
        draw(st.booleans()),
        draw(st.booleans()),
        null,
        draw(st.none() | st.just(metadata)),
        draw(st.none() | property_sets()),
    )


def value_of(kind: DataType, depth: int) -> st.SearchStrategy[Any]:
    if kind == DataType.DataSet:
        return datasets()
    if kind == DataType.Template:
        return templates(depth)
    return SCALARS[kind] if kind in SCALARS else ARRAY_VALUES[kind]


PAYLOADS = st.builds(
    Payload,
    st.none() | UINT64,
    st.lists(metrics(), max_size=4),
    st.none() | st.integers(0, 255),
    st.none() | TEXT,
    st.none() | st.binary(max_size=8),
)


def test_every_datatype_is_drawn() -> None:
    assert len(SCALARS) + len(ARRAY_VALUES) + len({"DataSet", "Template"}) == len(DataType) - 3
    assert ARRAY_VALUES.keys() == ARRAYS


@given(PAYLOADS)
def test_what_is_said_comes_back(payload: Payload) -> None:
    raw = encode(payload)
    again = decode(raw)
    assert again == payload
    assert encode(again) == raw


@pytest.mark.parametrize("datatype", [*SCALARS, *ARRAY_VALUES], ids=lambda datatype: datatype.name)
@given(st.data())
def test_every_datatype_comes_back(datatype: DataType, data: st.DataObject) -> None:
    """With its datatype on the wire or known from the birth, and UInt32 in either field."""
    value = data.draw(value_of(datatype, 0))
    payload = Payload(metrics=[Metric("m", 7, 1, datatype, value)])
    assert decode(encode(payload)) == payload
    assert decode(encode(payload, uint32_as_long=True)) == payload
    assert decode(encode(payload, with_datatypes=False), types={7: datatype}) == payload


@given(st.floats(width=32), st.floats())
def test_floats_keep_their_bits(narrow: float, wide: float) -> None:
    found = decode(
        encode(Payload(metrics=[Metric("f", datatype=9, value=narrow), Metric("d", datatype=10, value=wide)]))
    )
    values: list[Any] = [metric.value for metric in found.metrics]
    assert struct.pack("<f", values[0]) == struct.pack("<f", narrow)
    assert struct.pack("<d", values[1]) == struct.pack("<d", wide)


def decodes_or_is_refused(raw: bytes) -> None:
    """One PayloadError, or a payload that can be said again where its form is allowed, and then means the same."""
    try:
        payload = decode(raw)
    except PayloadError:
        return
    try:
        again = encode(payload)
    except PayloadError:
        return
    assert repr(decode(again)) == repr(decode(encode(decode(again))))


@given(st.binary(max_size=200))
@example(b"\x12\x00")
def test_random_bytes(raw: bytes) -> None:
    decodes_or_is_refused(raw)


@given(st.sampled_from(EVERY), st.data())
def test_mutated_vectors(raw: bytes, data: st.DataObject) -> None:
    changed = bytearray(raw)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(changed)))
        length = data.draw(st.integers(0, 3))
        changed[at : at + length] = data.draw(st.binary(max_size=3))
    decodes_or_is_refused(bytes(changed))


@given(st.sampled_from(EVERY), st.data())
def test_truncated_vectors(raw: bytes, data: st.DataObject) -> None:
    decodes_or_is_refused(raw[: data.draw(st.integers(0, len(raw)))])

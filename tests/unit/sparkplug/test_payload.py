"""Payloads of other implementations, strictness on the way out, and what must be refused."""

import math
from typing import Any

import pytest

from sparkplug.datatypes import DataType
from sparkplug.model import Metric, Payload, PayloadError
from sparkplug.payload import ITEMS_MAX, decode, encode
from sparkplug.plain import plain
from sparkplug.sparkplug_b_pb2 import Payload as Pb
from tests.unit.sparkplug.vectors import CASES, EDGE, TAHU_C, Case

ALL = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


@ALL
def test_the_reference_decodes_to_what_it_means(case: Case) -> None:
    assert plain(decode(case.reference)) == case.expected


@ALL
def test_it_is_encoded_as_the_reference(case: Case) -> None:
    assert encode(decode(case.reference)) == case.reference


def meant_otherwise(case: Case, encoder: str) -> dict[str, Any]:
    """What an encoder's bytes say where they do not say what was meant."""
    expected = case.expected
    metrics = [dict(metric) for metric in expected["metrics"]]
    if encoder == "aiospb8":
        for metric in metrics:
            if metric["datatype"] == "Double":
                metric["value"] = repr(float(round(float(metric["value"]))))
            if metric.get("alias") == "0":
                del metric["alias"]
    elif encoder == "npm" and case.name == "null_floatarray":
        del metrics[0]["datatype"]
    return {**expected, "metrics": metrics}


@pytest.mark.parametrize(
    ("case", "encoder"),
    [pytest.param(case, encoder, id=f"{case.name}-{encoder}") for case in CASES for encoder in case.others],
)
def test_other_bytes_decode_to_what_they_say(case: Case, encoder: str) -> None:
    """Masked integers and UInt32 in long_value mean the same; what aiospb rounds and drops is gone in its bytes."""
    payload = decode(case.others[encoder])
    assert plain(payload) == meant_otherwise(case, encoder)
    if plain(payload) == case.expected:
        assert encode(payload) == case.reference


def test_uint32_goes_to_long_for_peers_that_read_it_there() -> None:
    same = [case for case in CASES if case.name in ("uint32_min", "template_def", "props_all")]
    assert len(same) == 3
    for case in same:
        assert encode(decode(case.reference), uint32_as_long=True) == case.others["npm"]
    narrow = Payload(metrics=[Metric("m", datatype=DataType.UInt16, value=7)])
    assert encode(narrow, uint32_as_long=True) == encode(narrow)


def test_tahu_c() -> None:
    payload = decode(TAHU_C)
    assert [(metric.name, metric.value) for metric in payload.metrics] == [
        ("i8", -1),
        ("i16", -1),
        ("i32", -1),
        ("i64", -1),
        ("u32", 2**32 - 1),
        ("nul", None),
    ]
    assert (payload.metrics[-1].alias, payload.metrics[-1].is_null) == (0, True)


VALUES: dict[str, Any] = {
    "int8_widthmask_neg1": -1,
    "int8_signext_neg1": -1,
    "int16_widthmask_neg1": -1,
    "int16_signext_neg1": -1,
    "int64_in_int": 5,
    "int32_in_long_signext": -5,
    "unknown_datatype99": 1,
    "no_datatype": 1,
    "no_value_no_isnull": None,
    "isnull_with_value": None,
    "isnull_false_with_value": 5,
    "data_name_and_alias": 1,
    "seq256": 1,
    "no_seq": 1,
    "no_timestamp": 1,
    "boolarray_spec_msb": [False, False, True, True, False, True, False, False, True, True, False, True],
    "boolarray_tahupython_lsb": [False, False, True, False, True, True, False, False, False, False, False, False],
    "stringarray_tahupython_hex": ["414243", "68656c6c6f"],
    "ncmd_rebirth_with_seq": True,
    "ncmd_rebirth_false": False,
    "ncmd_by_alias": True,
    "ndeath_bdseq_uint64": 3,
    "ndeath_no_timestamp": 3,
}
REFUSED = {
    "truncated": "not a Sparkplug B payload: the protobuf message is damaged or too deep",
    "garbage": "not a Sparkplug B payload: the protobuf message is damaged or too deep",
    "bad_utf8_string": "metric 'v': a string is not valid UTF-8",
    "two_oneof_members": "metric 'v': double_value does not hold a Int32",
    "props_len_mismatch": "metric 'v': a property set has 2 keys and 1 values",
    "int32array_bad_len": "metric 'v': 3 bytes are no Int32Array: 4 for each element",
    "boolarray_count_lies": "metric 'v': a BooleanArray of 4294967295 has 536870912 bytes of bits, not 1",
}
TESTED_ALONE = {
    "duplicate_alias",
    "duplicate_name_birth",
    "empty_payload",
    "unknown_fields",
    "dataset_uint32_in_long",
}


def test_every_edge_case_is_tested() -> None:
    assert VALUES.keys() | REFUSED.keys() | TESTED_ALONE == EDGE.keys()


@pytest.mark.parametrize("name", VALUES)
def test_edge_case(name: str) -> None:
    (metric,) = decode(EDGE[name]).metrics
    assert metric.value == VALUES[name]
    assert type(metric.value) is type(VALUES[name])


@pytest.mark.parametrize("name", REFUSED)
def test_edge_case_is_refused(name: str) -> None:
    with pytest.raises(PayloadError) as error:
        decode(EDGE[name])
    assert str(error.value) == REFUSED[name]


def test_what_comes_twice_is_there_twice() -> None:
    for name in ("duplicate_alias", "duplicate_name_birth"):
        assert [metric.value for metric in decode(EDGE[name]).metrics] == [1, 2]


def test_cells_of_uint32_are_accepted_in_long() -> None:
    dataset = decode(EDGE["dataset_uint32_in_long"]).metrics[0].value
    assert getattr(dataset, "rows") == [[2**32 - 1]]  # noqa: B009


def test_no_bytes_are_an_empty_payload() -> None:
    assert decode(b"") == Payload()
    assert encode(Payload()) == b""


def test_flags_of_what_came_are_kept() -> None:
    assert decode(EDGE["seq256"]).seq == 256
    assert decode(EDGE["no_seq"]).seq is None
    assert decode(EDGE["no_timestamp"]).timestamp is None
    assert decode(EDGE["unknown_datatype99"]).metrics[0].datatype == 99
    assert decode(EDGE["isnull_with_value"]).metrics[0].wire == 10
    assert not decode(EDGE["no_value_no_isnull"]).metrics[0].is_null


def test_a_value_without_a_known_datatype_goes_back_into_its_field() -> None:
    for name in ("unknown_datatype99", "no_datatype", "ncmd_by_alias", "unknown_fields"):
        assert encode(decode(EDGE[name])) == EDGE[name]


@pytest.mark.parametrize(
    "field",
    [
        {"int_value": 2**32 - 1},
        {"long_value": 1},
        {"float_value": 0.5},
        {"double_value": math.inf},
        {"boolean_value": False},
        {"string_value": ""},
        {"bytes_value": b"\0"},
        {"dataset_value": Pb.DataSet(num_of_columns=0)},
        {"template_value": Pb.Template(template_ref="T", is_definition=False)},
    ],
    ids=lambda field: str(next(iter(field))),
)
def test_every_field_without_a_datatype(field: dict[str, Any]) -> None:
    raw = Pb(metrics=[Pb.Metric(alias=3, **field)]).SerializeToString()
    assert encode(decode(raw)) == raw


def test_datatypes_of_the_birth() -> None:
    raw = encode(
        Payload(metrics=[Metric("n", 1, datatype=DataType.Int8, value=-1), Metric("f", datatype=9, value=1.0)]),
        with_datatypes=False,
    )
    assert [metric.value for metric in decode(raw).metrics] == [2**32 - 1, 1.0]
    births: list[dict[int | str, int]] = [{1: 1, "f": 9}, {"n": 1, "f": 9}]
    for types in births:
        metrics = decode(raw, types=types).metrics
        assert [(metric.datatype, metric.value) for metric in metrics] == [(1, -1), (9, 1.0)]
    with pytest.raises(PayloadError, match="metric 'f': float_value does not hold a String"):
        decode(raw, types={"f": DataType.String})


def test_the_datatype_of_a_metric_wins_over_that_of_the_birth() -> None:
    raw = encode(Payload(metrics=[Metric("n", datatype=DataType.Int8, value=-1)]))
    assert decode(raw, types={"n": DataType.String}).metrics[0].value == -1


def test_unknown_fields_are_kept_wherever_an_object_holds_them() -> None:
    extra = bytes.fromhex("c23e03616263")
    inner = Pb.Metric(name="m", datatype=3, int_value=1)
    inner.MergeFromString(extra)
    parameter = Pb.Template.Parameter(name="p", type=3, int_value=1)
    parameter.MergeFromString(extra)
    template = Pb.Template(metrics=[inner], parameters=[parameter], template_ref="T", is_definition=False)
    template.MergeFromString(extra)
    value = Pb.PropertyValue(type=3, int_value=0)
    value.MergeFromString(extra)
    properties = Pb.PropertySet(keys=["k"], values=[value])
    properties.MergeFromString(extra)
    metadata = Pb.MetaData(size=1)
    metadata.MergeFromString(extra)
    metric = Pb.Metric(name="t", datatype=19, template_value=template, properties=properties, metadata=metadata)
    metric.MergeFromString(extra)
    dataset = Pb.DataSet(num_of_columns=0)
    dataset.MergeFromString(extra)
    raw = Pb(timestamp=1, metrics=[metric, Pb.Metric(name="d", datatype=16, dataset_value=dataset)])
    raw.MergeFromString(extra)
    data = raw.SerializeToString()
    assert data.count(extra) == 9
    assert encode(decode(data)) == data


@pytest.mark.parametrize("extra", ["", "c23e03616263"])
@pytest.mark.parametrize("count", [3, 6000])
def test_large_payloads_and_other_orders_of_fields_say_the_same(count: int, extra: str) -> None:
    last = Pb.Metric(name="last", datatype=3, int_value=0)
    last.MergeFromString(bytes.fromhex(extra))
    metrics = [*(Pb.Metric(name=f"a long name {i}", datatype=10, double_value=i) for i in range(count)), last]
    raw = Pb(metrics=metrics, seq=0).SerializeToString()
    assert raw[-2:] == b"\x18\0"
    for data in (raw, raw[-2:] + raw[:-2]):
        payload = decode(data)
        assert payload.seq == 0
        assert [metric.value for metric in payload.metrics] == [*map(float, range(count)), 0]
        assert payload.metrics[-1].unknown.hex() == extra
        assert encode(payload) == raw


def test_extension_values_are_kept() -> None:
    holder = Pb.Metric(name="x", alias=1)
    holder.extension_value.MergeFromString(bytes.fromhex("0a0161"))
    value = Pb.PropertyValue()
    value.extension_value.MergeFromString(bytes.fromhex("0a0162"))
    holder.properties.keys.append("k")
    holder.properties.values.append(value)
    parameter = Pb.Template.Parameter(name="p")
    parameter.extension_value.MergeFromString(bytes.fromhex("0a0163"))
    template = Pb.Template(parameters=[parameter], template_ref="T", is_definition=False)
    data = Pb(metrics=[holder, Pb.Metric(name="t", datatype=19, template_value=template)]).SerializeToString()
    assert encode(decode(data)) == data


def test_too_many_items_are_refused_at_once() -> None:
    raw = Pb(metrics=[Pb.Metric(name="m")] * (ITEMS_MAX + 1)).SerializeToString()
    with pytest.raises(PayloadError, match="too many"):
        decode(raw)
    assert len(decode(raw, items_max=ITEMS_MAX + 1).metrics) == ITEMS_MAX + 1


def test_items_are_counted_wherever_they_are() -> None:
    properties = Pb.PropertySet(keys=["a", "b"], values=[Pb.PropertyValue(type=3, int_value=1)] * 2)
    parameters = [Pb.Template.Parameter(name="p")] * 2
    members = [Pb.Metric(name="m")] * 2
    rows = [Pb.DataSet.Row(elements=[Pb.DataSet.DataSetValue()])] * 2
    for metric in (
        Pb.Metric(name="m", properties=properties),
        Pb.Metric(name="m", datatype=19, template_value=Pb.Template(parameters=parameters)),
        Pb.Metric(name="m", datatype=19, template_value=Pb.Template(metrics=members)),
        Pb.Metric(name="m", datatype=16, dataset_value=Pb.DataSet(columns=["c"], types=[3], rows=rows)),
        Pb.Metric(name="m", datatype=DataType.Int8Array, bytes_value=bytes(2 * 64)),
        Pb.Metric(name="m", datatype=DataType.BooleanArray, bytes_value=b"\x60\0\0\0" + bytes(12)),
    ):
        raw = Pb(metrics=[metric]).SerializeToString()
        decode(raw, items_max=3)
        with pytest.raises(PayloadError, match="too many"):
            decode(raw, items_max=2)


@pytest.mark.parametrize("seq", [-1, 256, True, "1", 1.0])
def test_seq_is_written_in_its_range_only(seq: Any) -> None:
    with pytest.raises(PayloadError, match="seq must be"):
        encode(Payload(seq=seq))


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (Payload(timestamp=-1), "the timestamp must be"),
        (Payload(timestamp=2**64), "the timestamp must be"),
        (Payload(uuid=b"u"), "the uuid must be a string"),  # type: ignore[arg-type]
        (Payload(body="b"), "the body must be bytes"),  # type: ignore[arg-type]
        (Payload(unknown=b"\xff"), "no protobuf"),
    ],
)
def test_bad_fields_of_a_payload(payload: Payload, reason: str) -> None:
    with pytest.raises(PayloadError, match=reason):
        encode(payload)

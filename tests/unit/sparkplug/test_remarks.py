"""Remarks on the edge cases: what is tolerated is said, what is as it should be is not."""

import pytest

from sparkplug.payload import decode
from sparkplug.remarks import remarks
from tests.unit.sparkplug.vectors import CASES, EDGE, Case


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_there_is_nothing_to_say_of_the_reference(case: Case) -> None:
    assert remarks(decode(case.reference)) == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("int64_in_int", ["metric 'v': Int64 in int_value"]),
        ("int32_in_long_signext", ["metric 'v': Int32 in long_value"]),
        ("unknown_datatype99", ["metric 'v': datatype 99 is no datatype of a metric"]),
        ("no_value_no_isnull", ["metric 'v': no value, and not is_null"]),
        ("isnull_with_value", ["metric 'v': is_null, and yet a int_value"]),
        ("isnull_false_with_value", []),
        ("duplicate_alias", ["alias 7 means 'a' and 'b'"]),
        ("duplicate_name_birth", []),
        ("seq256", ["seq 256 is beyond 255"]),
        ("no_timestamp", ["no timestamp"]),
        ("empty_payload", ["no timestamp"]),
        ("unknown_fields", ["unknown fields"]),
        ("no_datatype", []),
        ("ncmd_by_alias", []),
    ],
)
def test_edge_case(name: str, said: list[str]) -> None:
    assert remarks(decode(EDGE[name])) == said


def test_the_field_of_another_encoder() -> None:
    (case,) = (case for case in CASES if case.name == "uint32_min")
    assert remarks(decode(case.others["npm"])) == ["metric 'v': UInt32 in long_value"]


def test_a_metric_that_nobody_can_name() -> None:
    raw = bytes.fromhex("08011204" + "2003" + "5001" + "120a2003c23e036162635001")
    assert remarks(decode(raw)) == [
        "metric without a name: no alias either",
        "metric without a name: no alias either",
        "metric without a name: unknown fields",
    ]

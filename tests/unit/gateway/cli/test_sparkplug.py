"""``forebay sparkplug decode``: files in, what they say out."""

import json
from pathlib import Path

import pytest

from sparkplug.datatypes import DataType
from sparkplug.model import Metric, Payload
from sparkplug.payload import encode
from tests.command import Forebay
from tests.unit.sparkplug.vectors import CASES, EDGE, Case


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_json_says_what_the_vector_means(forebay: Forebay, case: Case) -> None:
    Path("file").write_bytes(case.reference)
    done = forebay("sparkplug", "decode", "file", "--json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out) == case.expected


def test_hex_and_stdin(forebay: Forebay) -> None:
    done = forebay("sparkplug", "decode", "-", "--hex", "--json", stdin=b"08 01\n18 05")
    assert (done.code, json.loads(done.out)) == (0, {"timestamp": 1, "seq": 5, "metrics": []})


def test_for_people(forebay: Forebay) -> None:
    metrics = [
        Metric("Temp\x1b[31m", 3, 1_700_000_000_100, DataType.Double, 20.5, is_historical=True),
        Metric("n", None, None, DataType.Int32),
        Metric("a", None, 2**64 - 1, DataType.BooleanArray, [True]),
    ]
    Path("file").write_bytes(encode(Payload(1_700_000_000_123, metrics, 7, "u", b"body")))
    done = forebay("sparkplug", "decode", "file")
    assert (done.code, done.err) == (0, "")
    assert [line.rstrip() for line in done.out.splitlines()] == [
        "seq 7, 3 metrics, 2023-11-14T22:13:20.123Z, uuid u, body of 4 bytes",
        "metric        alias  datatype      value   time",
        "Temp\\x1b[31m  3      Double        20.5    2023-11-14T22:13:20.100Z  historical",
        "n             -      Int32         null    no time",
        "a             -      BooleanArray  [true]  18446744073709551615",
    ]
    Path("file").write_bytes(b"")
    assert forebay("sparkplug", "decode", "file").out == "no seq, 0 metrics, no time\n"


def test_a_birth_gives_names_and_datatypes(forebay: Forebay) -> None:
    birth = [Metric("a", 0, 1, DataType.Int8, -1), Metric("b", None, 1, DataType.Float, 1.5)]
    Path("birth").write_bytes(encode(Payload(1, birth, 0)))
    data = [Metric(None, 0, 2, DataType.Int8, -2), Metric("b", None, 2, DataType.Float, 2.5)]
    Path("data").write_bytes(encode(Payload(2, data, 1), with_datatypes=False))
    done = forebay("sparkplug", "decode", "data", "--birth", "birth", "--json")
    assert json.loads(done.out)["metrics"] == [
        {"name": "a", "alias": "0", "datatype": "Int8", "timestamp": 2, "value": "-2"},
        {"name": "b", "datatype": "Float", "timestamp": 2, "value": "2.5"},
    ]
    assert json.loads(forebay("sparkplug", "decode", "data", "--json").out)["metrics"][0] == {
        "alias": "0",
        "timestamp": 2,
        "value": "4294967294",
    }


def test_what_is_unusual_is_said(forebay: Forebay) -> None:
    Path("file").write_bytes(EDGE["int64_in_int"])
    assert forebay("sparkplug", "decode", "file").err == "forebay: file: metric 'v': Int64 in int_value\n"


def test_what_cannot_be_decoded_is_one_line(forebay: Forebay) -> None:
    Path("file").write_bytes(EDGE["truncated"])
    Path("utf").write_bytes(EDGE["bad_utf8_string"])
    Path("hex").write_text("0g")
    reason = "not a Sparkplug B payload: the protobuf message is damaged or too deep"
    assert forebay("sparkplug", "decode", "file") == (2, "", f"forebay: file: {reason}\n")
    assert forebay("sparkplug", "decode", "utf") == (2, "", "forebay: utf: metric 'v': a string is not valid UTF-8\n")
    assert forebay("sparkplug", "decode", "hex", "--hex") == (2, "", "forebay: hex: expected hex digits only\n")
    assert forebay("sparkplug", "decode", "none") == (
        2,
        "",
        "forebay: none: cannot be read: No such file or directory\n",
    )
    assert forebay("sparkplug", "decode", "file", "--birth", "hex").code == 2
    twice = forebay("sparkplug", "decode", "-", "--birth", "-")
    assert twice == (2, "", "forebay: --birth -: expected a file, as stdin is the payload already\n")

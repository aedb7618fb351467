"""What is accepted beyond the usual form, and the bounds."""

import os
import subprocess
import sys
from typing import Any

import pytest

from sparkplug.datatypes import DataType
from sparkplug.model import NESTING_MAX, DataSet, PayloadError, PropertySet, Template
from sparkplug.payload import decode
from sparkplug.plain import plain
from sparkplug.sparkplug_b_pb2 import Payload as Pb
from tests.unit.sparkplug.vectors import EVERY


def decoded(**fields: Any) -> Any:
    """The one metric of a payload."""
    return decode(Pb(metrics=[Pb.Metric(name="m", **fields)]).SerializeToString()).metrics[0]


def nested_templates(depth: int) -> Any:
    metric = Pb.Metric(name="leaf", datatype=3, int_value=1)
    for level in range(depth):
        metric = Pb.Metric(
            name=f"t{level}", datatype=19, template_value=Pb.Template(metrics=[metric], template_ref="T")
        )
    return metric


def nested_properties(depth: int, lists: bool) -> Any:
    found = Pb.PropertySet(keys=["leaf"], values=[Pb.PropertyValue(type=3, int_value=1)])
    for _ in range(depth - 1):
        value = (
            Pb.PropertyValue(type=21, propertysets_value=Pb.PropertySetList(propertyset=[found]))
            if lists
            else Pb.PropertyValue(type=20, propertyset_value=found)
        )
        found = Pb.PropertySet(keys=["p"], values=[value])
    return Pb.Metric(name="m", datatype=3, int_value=1, properties=found)


def test_templates_nest_to_the_limit_and_no_further() -> None:
    metric = decode(Pb(metrics=[nested_templates(NESTING_MAX)]).SerializeToString()).metrics[0]
    for _ in range(NESTING_MAX):
        assert isinstance(metric.value, Template)
        (metric,) = metric.value.metrics
    assert metric.value == 1
    with pytest.raises(PayloadError, match="templates are nested deeper than 16"):
        decode(Pb(metrics=[nested_templates(NESTING_MAX + 1)]).SerializeToString())


@pytest.mark.parametrize("lists", [False, True])
def test_property_sets_nest_to_the_limit_and_no_further(lists: bool) -> None:
    metric = decode(Pb(metrics=[nested_properties(NESTING_MAX, lists)]).SerializeToString()).metrics[0]
    inner: Any = metric.properties
    for _ in range(NESTING_MAX - 1):
        assert isinstance(inner, PropertySet)
        inner = inner.values["p"].value
        inner = inner[0] if lists else inner
    assert inner.values["leaf"].value == 1
    with pytest.raises(PayloadError, match="property sets are nested deeper than 16"):
        decode(Pb(metrics=[nested_properties(NESTING_MAX + 1, lists)]).SerializeToString())


def test_nesting_beyond_what_protobuf_reads_is_the_same_error() -> None:
    raw = b""
    for _ in range(5000):
        raw = b"\x12" + Pb.Metric(extension_value=None).SerializeToString() + bytes([0]) if not raw else raw
        length = len(raw)
        raw = b"\x92\x01" + _varint(length) + raw
        raw = b"\x12" + _varint(len(raw)) + raw
    with pytest.raises(PayloadError, match="damaged or too deep"):
        decode(raw)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def test_zeros_are_values_and_nulls_are_not() -> None:
    assert decoded(datatype=3, int_value=0).value == 0
    assert decoded(datatype=11, boolean_value=False).value is False
    assert decoded(datatype=12, string_value="").value == ""
    assert decoded(datatype=10, double_value=0.0).value == 0.0
    assert decoded(datatype=17, bytes_value=b"").value == b""
    assert decoded(datatype=24, bytes_value=b"").value == []
    assert decoded(datatype=3).value is None
    null = decoded(datatype=3, int_value=5, is_null=True)
    assert (null.value, null.is_null) == (None, True)
    assert decoded(datatype=3, int_value=5, is_null=False).value == 5


def test_the_limits_of_identity() -> None:
    raw = Pb(metrics=[Pb.Metric(alias=0), Pb.Metric(name=""), Pb.Metric(alias=2**64 - 1), Pb.Metric()])
    found = [(metric.name, metric.alias) for metric in decode(raw.SerializeToString()).metrics]
    assert found == [(None, 0), ("", None), (None, 2**64 - 1), (None, None)]


def test_datatypes_that_are_for_properties_only_are_unknown_for_metrics() -> None:
    assert decoded(datatype=DataType.PropertySet, int_value=5).value == 5


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"datatype": 16, "int_value": 1}, "metric 'm': int_value does not hold a DataSet"),
        ({"datatype": 3, "dataset_value": Pb.DataSet()}, "metric 'm': dataset_value does not hold a Int32"),
        ({"datatype": 3, "template_value": Pb.Template()}, "metric 'm': template_value does not hold a Int32"),
        ({"datatype": 24, "int_value": 1}, "metric 'm': int_value does not hold a Int32Array"),
        ({"datatype": 5, "int_value": 256}, "metric 'm': 256 is out of the range of UInt8"),
        (
            {"datatype": 16, "dataset_value": Pb.DataSet(columns=["a"])},
            "metric 'm': a data set has 1 columns and 0 types",
        ),
        (
            {"datatype": 16, "dataset_value": Pb.DataSet(columns=["a"], types=[3], rows=[Pb.DataSet.Row()])},
            "metric 'm': row 0 of a data set has 0 cells for 1 columns",
        ),
        (
            {
                "datatype": 16,
                "dataset_value": Pb.DataSet(
                    columns=["a"],
                    types=[12],
                    rows=[Pb.DataSet.Row(elements=[Pb.DataSet.DataSetValue(int_value=1)])],
                ),
            },
            "metric 'm', row 0, column 'a': int_value does not hold a String",
        ),
        (
            {
                "datatype": 19,
                "template_value": Pb.Template(parameters=[Pb.Template.Parameter(name="p", type=5, int_value=256)]),
            },
            "metric 'm', parameter 'p': 256 is out of the range of UInt8",
        ),
        (
            {
                "datatype": 19,
                "template_value": Pb.Template(metrics=[Pb.Metric(alias=7, datatype=12, int_value=1)]),
            },
            "metric 'm', alias 7: int_value does not hold a String",
        ),
        (
            {"properties": Pb.PropertySet(keys=["p"], values=[Pb.PropertyValue(type=12, int_value=1)])},
            "metric 'm', property 'p': int_value does not hold a String",
        ),
        (
            {
                "properties": Pb.PropertySet(
                    keys=["p"], values=[Pb.PropertyValue(type=3, propertyset_value=Pb.PropertySet())]
                )
            },
            "metric 'm', property 'p': propertyset_value does not hold a Int32",
        ),
        (
            {"properties": Pb.PropertySet(keys=["p"], values=[Pb.PropertyValue(type=20, int_value=1)])},
            "metric 'm', property 'p': int_value does not hold a PropertySet",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(PayloadError) as error:
        decoded(**fields)
    assert str(error.value) == reason


def test_nulls_in_data_sets_templates_and_properties() -> None:
    row = Pb.DataSet.Row(elements=[Pb.DataSet.DataSetValue()])
    dataset = decoded(datatype=16, dataset_value=Pb.DataSet(columns=["a"], types=[3], rows=[row])).value
    assert dataset == DataSet(["a"], [3], [[None]])
    template = decoded(datatype=19, template_value=Pb.Template(parameters=[Pb.Template.Parameter(name="p")])).value
    assert [(each.name, each.type, each.value) for each in template.parameters] == [("p", 0, None)]
    values = [Pb.PropertyValue(type=3, is_null=True), Pb.PropertyValue(type=3), Pb.PropertyValue(int_value=4)]
    found = decoded(properties=Pb.PropertySet(keys=["a", "b", "c"], values=values)).properties.values
    assert [(each.type, each.value, each.is_null) for each in found.values()] == [
        (3, None, True),
        (3, None, False),
        (0, 4, False),
    ]


def lengthed(number: int, raw: bytes) -> bytes:
    """A field with a length."""
    return _varint(number << 3 | 2) + _varint(len(raw)) + raw


BAD = b"\xff"
NO_TEXT = {
    "uuid": lengthed(4, BAD),
    "name": lengthed(2, lengthed(1, BAD)),
    "string": lengthed(2, b"\x20\x0c" + lengthed(15, BAD)),
    "string without datatype": lengthed(2, lengthed(15, BAD)),
    "content type": lengthed(2, lengthed(8, lengthed(2, BAD))),
    "description": lengthed(2, lengthed(8, lengthed(8, BAD))),
    "key": lengthed(2, lengthed(9, lengthed(1, BAD) + lengthed(2, b""))),
    "property": lengthed(2, lengthed(9, lengthed(1, b"") + lengthed(2, b"\x08\x0c" + lengthed(8, BAD)))),
    "column": lengthed(2, b"\x20\x10" + lengthed(17, lengthed(2, BAD) + b"\x18\x0c")),
    "cell": lengthed(
        2, b"\x20\x10" + lengthed(17, lengthed(2, b"") + b"\x18\x0c" + lengthed(4, lengthed(1, lengthed(6, BAD))))
    ),
    "version": lengthed(2, b"\x20\x13" + lengthed(18, lengthed(1, BAD))),
    "template_ref": lengthed(2, b"\x20\x13" + lengthed(18, lengthed(4, BAD))),
    "member": lengthed(2, b"\x20\x13" + lengthed(18, lengthed(2, lengthed(1, BAD)))),
    "parameter": lengthed(2, b"\x20\x13" + lengthed(18, lengthed(3, lengthed(1, BAD)))),
    "value of a parameter": lengthed(2, b"\x20\x13" + lengthed(18, lengthed(3, b"\x10\x0c" + lengthed(8, BAD)))),
}


@pytest.mark.parametrize("place", NO_TEXT)
def test_what_is_no_utf8_is_refused_wherever_it_is(place: str) -> None:
    with pytest.raises(PayloadError, match="not valid UTF-8"):
        decode(NO_TEXT[place])
    decode(NO_TEXT[place].replace(BAD, b"x"))  # that alone was wrong


CHILD = """
import sys
from google.protobuf.internal import api_implementation
from sparkplug.model import PayloadError
from sparkplug.payload import decode
from sparkplug.plain import plain

assert api_implementation.Type() == "python"
for line in sys.stdin:
    try:
        print(plain(decode(bytes.fromhex(line))))
    except PayloadError as error:
        print("refused")
"""


def test_protobuf_without_its_c_part_reads_the_same() -> None:
    """Where there is no wheel for the machine, as on 32 bit ARM."""
    inputs = [*EVERY, *NO_TEXT.values(), bytes.fromhex("ff"), b"\x12\x02\x0a"]
    environment = {**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        input="".join(raw.hex() + "\n" for raw in inputs), capture_output=True, text=True, check=True, env=environment,
    )  # fmt: skip
    for raw, line in zip(inputs, done.stdout.splitlines(), strict=True):
        try:
            expected = str(plain(decode(raw)))
        except PayloadError:
            expected = "refused"
        assert line == expected

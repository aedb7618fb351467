"""What is not written: each with the metric and the reason."""

from typing import Any

import pytest

from sparkplug.datatypes import DataType
from sparkplug.model import (
    NESTING_MAX,
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


def template(**fields: Any) -> Metric:
    return Metric("m", datatype=DataType.Template, value=Template(**fields))


def prop(key: str, **fields: Any) -> Metric:
    return Metric("m", datatype=3, value=1, properties=PropertySet({key: PropertyValue(**fields)}))


def dataset(*arguments: Any) -> Metric:
    return Metric("m", datatype=DataType.DataSet, value=DataSet(*arguments))


REFUSED: list[tuple[Metric, str]] = [
    (Metric(), "metric without a name: neither a name nor an alias"),
    (Metric(alias=-1, datatype=3, value=1), "alias -1: the alias must be an integer from 0 to 2^64-1, not -1"),
    (Metric(5), "metric 5: the name must be a string, not 5"),  # type: ignore[arg-type]
    (Metric("\ud800"), "metric '\\ud800': the name holds a surrogate, which UTF-8 does not"),
    (Metric("m", timestamp=2**64), "the timestamp must be an integer from 0 to 2^64-1"),
    (Metric("m", value=1), "metric 'm': a value needs a datatype, not Unknown"),
    (Metric("m", datatype=99, value=1), "metric 'm': a value needs a datatype, not datatype 99"),
    (Metric("m", datatype=-1, value=1), "metric 'm': -1 is no datatype"),
    (Metric("m", datatype=20, value=1), "metric 'm': PropertySet is not allowed here"),
    (Metric("m", datatype=3, value=2**31), "metric 'm': 2147483648 is out of the range of Int32"),
    (Metric("m", datatype=3, value="1"), "metric 'm': a value of type str is no Int32"),
    (Metric("m", datatype=12, value="\ud800"), "metric 'm': the value holds a surrogate"),
    (Metric("m", datatype=16, value=1), "metric 'm': a value of type int is no DataSet"),
    (Metric("m", datatype=19, value=1), "metric 'm': a value of type int is no Template"),
    (Metric("m", datatype=3, value=DataSet()), "metric 'm': a value of type DataSet is no Int32"),
    (Metric("m", datatype=24, value=[2**31]), "metric 'm': 2147483648 is out of the range of Int32"),
    (Metric("m", datatype=3, value=1, is_null=True), "metric 'm': is_null, and yet a value"),
    (Metric("m", value=2**32, wire=10), "metric 'm': 4294967296 does not fit into int_value"),
    (Metric("m", value="x", wire=10), "metric 'm': 'x' does not fit into int_value"),
    (Metric("m", value=1, wire=19), "metric 'm': a value needs a datatype, not Unknown"),
    (Metric("m", metadata=MetaData(size=-1)), "metric 'm': size of the metadata must be an integer"),
    (Metric("m", metadata=MetaData(md5="\ud800")), "metric 'm': md5 of the metadata holds a surrogate"),
    (dataset(["a"], [], []), "metric 'm': a data set has 1 columns and 0 types"),
    (dataset(["a"], [15], []), "metric 'm': column 'a' cannot hold a UUID"),
    (dataset(["a"], [3], [[]]), "metric 'm': row 0 of a data set has 0 cells for 1 columns"),
    (dataset(["a"], [3], [[1], ["x"]]), "metric 'm', row 1, column 'a': a value of type str is no Int32"),
    (template(), "metric 'm': a template's instance needs the name of its definition as template_ref"),
    (template(is_definition=True, template_ref="T"), "metric 'm': a template's definition has no template_ref"),
    (
        template(is_definition=True, metrics=[Metric("i", datatype=1, value=200)]),
        "metric 'm', metric 'i': 200 is out of the range of Int8",
    ),
    (
        template(is_definition=True, parameters=[Parameter("p", 1, 200)]),
        "metric 'm', parameter 'p': 200 is out of the range of Int8",
    ),
    (
        template(is_definition=True, parameters=[Parameter("p", 15, "u")]),
        "metric 'm', parameter 'p': UUID is not allowed here",
    ),
    (
        template(is_definition=True, parameters=[Parameter("p", 0, 1)]),
        "metric 'm', parameter 'p': a value needs a datatype, not Unknown",
    ),
    (prop("p", type=1, value=200), "metric 'm', property 'p': 200 is out of the range of Int8"),
    (prop("p", type=17, value=b""), "metric 'm', property 'p': Bytes is not allowed here"),
    (prop("p", type=20, value=1), "metric 'm', property 'p': a value of type int is no PropertySet"),
    (prop("p", type=21, value=[1]), "metric 'm', property 'p': a value of type int is no PropertySet"),
    (prop("p", type=3, value=PropertySet()), "metric 'm', property 'p': a value of type PropertySet is no Int32"),
    (prop("p", type=3, value=1, is_null=True), "metric 'm', property 'p': is_null, and yet a value"),
    (prop("Quality", type=3, value=1), "metric 'm', property 'Quality': Quality is an Int32 of 0 (bad)"),
    (prop("Quality", type=7, value=192), "metric 'm', property 'Quality': Quality is an Int32 of 0 (bad)"),
]


@pytest.mark.parametrize(
    ("metric", "reason"), REFUSED, ids=[f"{n}-{reason[-40:]}" for n, (_, reason) in enumerate(REFUSED)]
)
def test_it_is_refused(metric: Metric, reason: str) -> None:
    with pytest.raises(PayloadError) as error:
        encode(Payload(metrics=[metric]))
    assert reason in str(error.value)


def test_no_value_is_a_null() -> None:
    (metric,) = decode(encode(Payload(metrics=[Metric("m", datatype=3)]))).metrics
    assert (metric.value, metric.is_null) == (None, True)


def test_a_cell_without_a_value_is_a_null() -> None:
    metric = dataset(["a", "b"], [3, 12], [[None, "x"], [1, None]])
    assert decode(encode(Payload(metrics=[metric]))).metrics == [metric]


def test_nesting_is_bounded_on_the_way_out_too() -> None:
    inner = Metric("m", datatype=3, value=1)
    for _ in range(NESTING_MAX):
        inner = template(template_ref="T", metrics=[inner])
    assert decode(encode(Payload(metrics=[inner]))).metrics == [inner]
    with pytest.raises(PayloadError, match="templates are nested deeper"):
        encode(Payload(metrics=[template(template_ref="T", metrics=[inner])]))
    endless = PropertySet()
    endless.values["p"] = PropertyValue(20, endless)
    with pytest.raises(PayloadError, match="property sets are nested deeper"):
        encode(Payload(metrics=[Metric("m", properties=endless)]))


def test_empty_objects_are_there() -> None:
    metric = Metric("m", datatype=3, value=1, metadata=MetaData(), properties=PropertySet())
    assert decode(encode(Payload(metrics=[metric]))).metrics == [metric]
    for value in (PropertySet(), [], [PropertySet(), PropertySet()]):
        entry = PropertyValue(20 if isinstance(value, PropertySet) else 21, value)
        metric = Metric("m", datatype=3, value=1, properties=PropertySet({"p": entry}))
        assert decode(encode(Payload(metrics=[metric]))).metrics == [metric]

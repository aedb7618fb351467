"""Plain data for JSON: nothing is rounded, what is absent is left out. The vectors show the usual forms."""

import json
import math

from sparkplug.datatypes import DataType
from sparkplug.model import DataSet, Metric, Payload, PropertySet, PropertyValue
from sparkplug.plain import plain


def test_values_that_json_would_round() -> None:
    payload = Payload(
        5,
        [
            Metric("n", 2**64 - 1, 1, DataType.Double, math.nan),
            Metric(alias=0, datatype=99, value=b"\1", unknown=b"\2"),
            Metric("a", datatype=DataType.UInt64Array, value=[2**64 - 1]),
            Metric("d", datatype=DataType.DataSet, value=DataSet(["x", "y"], [4, 12], [[1, None], [2, "z"]])),
        ],
        7,
        unknown=b"\3",
    )
    assert plain(payload) == {
        "timestamp": 5,
        "seq": 7,
        "metrics": [
            {"name": "n", "alias": "18446744073709551615", "datatype": "Double", "timestamp": 1, "value": "nan"},
            {"alias": "0", "datatype": 99, "value": "01", "unknown": "02"},
            {"name": "a", "datatype": "UInt64Array", "value": ["18446744073709551615"]},
            {
                "name": "d",
                "datatype": "DataSet",
                "value": {"columns": ["x", "y"], "types": ["Int64", "String"], "rows": [["1", None], ["2", "z"]]},
            },
        ],
        "unknown": "03",
    }
    json.dumps(plain(payload), allow_nan=False)


def test_sets_of_properties() -> None:
    inner = PropertySet({"x": PropertyValue(3, 1)})
    entries = {"one": PropertyValue(20, inner), "two": PropertyValue(21, [inner, PropertySet()])}
    (metric,) = plain(Payload(metrics=[Metric("m", properties=PropertySet(entries))]))["metrics"]
    written = {"x": {"type": "Int32", "value": "1"}}
    assert metric["properties"] == {
        "one": {"type": "PropertySet", "value": written},
        "two": {"type": "PropertySetList", "value": [written, {}]},
    }

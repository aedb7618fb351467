from dataclasses import replace

from sparkplug.datatypes import DataType
from sparkplug.model import PropertySet, PropertyValue
from sparkplug.origin import shape
from tests.sparkplug_rig import metric


def test_values_and_order_make_no_other_birth_but_names_types_and_properties_do() -> None:
    a, b = metric("a"), metric("b")
    unit = PropertySet({"unit": PropertyValue(DataType.String, "mm")})
    assert shape([a, b]) == shape([replace(b, value=7, timestamp=9), replace(a, alias=4)])
    for other in (replace(a, name="c"), replace(a, datatype=DataType.Int64), replace(a, properties=unit)):
        assert shape([a, b]) != shape([other, b])

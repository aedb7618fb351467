from dataclasses import replace

from sparkplug.datatypes import DataType
from sparkplug.mapping import is_definition, own_device, to_own, to_source
from sparkplug.model import Metric, Template
from sparkplug.topic import NodeId
from tests.sparkplug_rig import metric

ID = NodeId("g", "e")


def test_no_two_sources_get_the_same_name() -> None:
    ids = [("a", "b", None), ("a", "b", "c"), ("a:b", "c", None), ("a", "b:c", None), ("a%3Ab", "c", None)]
    names = [own_device(NodeId(group, node), device) for group, node, device in ids]
    assert names == ["a:b", "a:b:c", "a%3Ab:c", "a:b%3Ac", "a%253Ab:c"]


def test_template_references_are_ours_and_find_back() -> None:
    inner = Metric("in", datatype=DataType.Template, value=Template(template_ref="Inner"))
    outer = Metric("Outer", datatype=DataType.Template, value=Template(metrics=[inner], is_definition=True))
    own = to_own(outer, ID)
    assert isinstance(own.value, Template)
    assert own.name == "g:e:Outer"
    member = own.value.metrics[0].value
    assert isinstance(member, Template)
    assert member.template_ref == "g:e:Inner"
    assert to_source(own, ID) == outer
    assert is_definition(outer)
    assert not is_definition(inner)


def test_other_metrics_are_as_they_were() -> None:
    one = metric("Axis", 1)
    assert to_own(one, ID) is one
    assert replace(one) == to_source(one, ID)

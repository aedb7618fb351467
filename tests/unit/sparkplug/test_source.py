from sparkplug.datatypes import DataType
from sparkplug.model import Metric, Parameter, PropertySet, Template
from sparkplug.source import Source, asks_rebirth, bd_seq_of, name_fault, update


def test_metrics_are_found_by_alias_or_by_name() -> None:
    source = Source("d")
    source.replace([Metric("a", 0, datatype=3), Metric("b", datatype=9), Metric("c", 5, datatype=11)])
    assert source.types == {"a": 3, 0: 3, "b": 9, "c": 11, 5: 11}
    found = [source.find(Metric(name, alias)) for name, alias in [(None, 0), ("b", None), ("c", 5), ("b", 77)]]
    assert [metric and metric.name for metric in found] == ["a", "b", "c", "b"]
    assert source.find(Metric(None, 77)) is None
    assert source.find(Metric("z")) is None
    assert source.find(Metric()) is None
    source.replace([Metric("n")])
    assert source.find(Metric(None, 0)) is None
    assert list(source.metrics) == ["n"]


def test_bd_seq_is_read_whatever_its_datatype() -> None:
    assert bd_seq_of([Metric("x", value=1), Metric("bdSeq", datatype=DataType.UInt64, value=7)]) == 7
    assert bd_seq_of([Metric("bdSeq", datatype=DataType.Int64, value=0)]) == 0
    assert bd_seq_of([Metric("bdSeq", value=None)]) is None
    assert bd_seq_of([Metric("bdSeq", value=True)]) is None
    assert bd_seq_of([]) is None


def test_a_rebirth_is_asked_for_by_true_alone() -> None:
    assert asks_rebirth([Metric("x"), Metric("Node Control/Rebirth", value=True)])
    assert not asks_rebirth([Metric("Node Control/Rebirth", value=False)])
    assert not asks_rebirth([Metric("Node Control/Rebirth", value=1)])
    assert not asks_rebirth([Metric("Node Control/rebirth", value=True)])


def test_names_that_cannot_be_told_apart() -> None:
    assert name_fault([Metric("a"), Metric("A")]) is None
    assert name_fault([Metric("a"), Metric("a")]) == "two metrics are named 'a'"
    assert name_fault([Metric(None, 4)]) == name_fault([Metric("")]) == "a metric has no name"


def test_an_update_takes_value_time_and_properties() -> None:
    current = Metric("a", 1, 10, DataType.Int32, 5, properties=PropertySet())
    update(current, Metric(None, 1, None, 0, None, is_null=True), 20)
    assert current == Metric("a", 1, 20, DataType.Int32, None, is_null=True, properties=PropertySet())
    other = PropertySet({})
    update(current, Metric(None, 1, 15, 0, 6, properties=other), 20)
    assert (current.value, current.is_null, current.timestamp, current.properties) == (6, False, 15, other)


def test_a_template_in_data_changes_the_members_that_it_holds() -> None:
    whole = Template("1", [Metric("x", value=1), Metric("y", value=2)], [Parameter("p", 3, 1)], "T")
    current = Metric("t", datatype=DataType.Template, value=whole)
    update(current, Metric("t", datatype=DataType.Template, value=Template(None, [Metric("y", value=3)], [], None)), 1)
    assert current.value == Template(
        "1", [Metric("x", value=1), Metric("y", value=3)], [Parameter("p", 3, 1)], "T", False
    )

"""A command to a node: by alias where its birth gave one, by name else, and only what it has."""

import pytest

from gateway.bridge.commands import WriteError, write
from gateway.core.nodes import NBIRTH, Birth, Node, Source
from sparkplug.datatypes import DataType
from sparkplug.model import Metric
from sparkplug.payload import decode
from tests.spb_bytes import metric, nbirth


def node(*more: bytes) -> Node:
    made = Node("g", "e")
    source = Source(made, NBIRTH, "spBv1.0/g/NBIRTH/e", "")
    source.births.append(Birth(1, 0, nbirth(0, 0, 5, *more)))
    made.sources.append(source)
    return made


def written(payload: bytes) -> Metric:
    (one,) = decode(payload).metrics
    return one


def test_by_name_or_by_alias() -> None:
    found = written(write(node(metric("QoS", 0)), "QoS", "Int32", 1, 9))
    assert (found.name, found.alias, found.value, found.datatype) == ("QoS", None, 1, DataType.Int32)
    found = written(write(node(metric("QoS", 0, alias=7)), "QoS", "Boolean", True, 9))
    assert (found.name, found.alias, found.value, found.timestamp) == (None, 7, True, 9)


def test_without_a_birth_by_name() -> None:
    assert written(write(Node("g", "e"), "QoS", "String", "1", 9)).name == "QoS"


@pytest.mark.parametrize(
    ("name", "datatype", "value", "said"),
    [
        ("None", "Int32", 1, "g/e has no metric None in its birth"),
        ("QoS", "Int33", 1, "Int33 is no datatype"),
        ("QoS", None, 1, "None is no datatype"),
        ("QoS", "Int8", 1000, "QoS"),
        ("QoS", "Boolean", "yes", "QoS"),
        (None, "Int32", 1, "expected the name of a metric"),
        ("QoS", "Int32", None, "expected the name of a metric"),
        ("QoS", "Int32", [1], "expected the name of a metric"),
    ],
)
def test_what_cannot_be_written_is_one_line(name: object, datatype: object, value: object, said: str) -> None:
    with pytest.raises(WriteError, match=said) as caught:
        write(node(metric("QoS", 0)), name, datatype, value, 9)
    assert "\n" not in str(caught.value)


def test_a_birth_that_cannot_be_read_is_told() -> None:
    broken = node()
    broken.sources[0].births[0] = Birth(1, 0, b"\xff\xff")
    with pytest.raises(WriteError, match="g/e: not a Sparkplug B payload"):
        write(broken, "QoS", "Int32", 1, 9)

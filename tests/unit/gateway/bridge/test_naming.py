"""Names of births on data that only has aliases."""

import pytest

from gateway.bridge.naming import Names
from sparkplug.model import PayloadError
from sparkplug.topic import CERTIFICATES, TopicError
from tests.spb_bytes import chunk, metric, nbirth, ndeath, number, payload

NBIRTH, NDATA = "spBv1.0/g/NBIRTH/e", "spBv1.0/g/NDATA/e"
DBIRTH, DDATA = "spBv1.0/g/DBIRTH/e/d", "spBv1.0/g/DDATA/e/d"


def said(names: Names, topic: str, data: bytes) -> list[tuple[str | None, object]]:
    found = names.read(topic, data)
    assert found is not None
    return [(m.name, m.value) for m in found[3].metrics]


def test_aliases_get_the_names_and_datatypes_of_the_birth() -> None:
    names = Names()
    said(names, NBIRTH, nbirth(0, 0, 5, metric("speed", 1, 7), metric("depth", 2, 8, datatype=2)))
    short = chunk(2, number(2, 8) + number(10, 0xFFFF))  # Int16 by the birth alone
    assert said(names, NDATA, chunk(2, number(2, 7) + number(11, 9)) + short) == [("speed", 9), ("depth", -1)]


def test_a_certificate_names_as_the_birth_does() -> None:
    names = Names()
    said(names, CERTIFICATES + DBIRTH, payload(metric("x", 1, 7), seq=1))
    found = names.read(DDATA, payload(metric("", 5, 7), seq=2))
    assert found is not None
    assert found[:3] == ("DDATA", "g/e", "d")
    assert found[3].metrics[0].name == "x"


def test_node_and_device_have_names_of_their_own_and_a_new_birth_its_own() -> None:
    names = Names()
    said(names, NBIRTH, nbirth(0, 0, 5, metric("of node", 1, 7)))
    said(names, DBIRTH, payload(metric("of device", 1, 7), seq=1))
    assert said(names, DDATA, payload(metric("", 5, 7))) == [("of device", 5)]
    assert said(names, NDATA, payload(metric("", 5, 7))) == [("of node", 5)]
    said(names, NBIRTH, nbirth(0, 0, 6, metric("renamed", 1, 7)))
    assert said(names, NDATA, payload(metric("", 5, 7))) == [("renamed", 5)]


def test_what_no_birth_names_keeps_its_alias() -> None:
    names = Names()
    assert said(names, NDATA, payload(metric("", 5, 7))) == [(None, 5)]
    said(names, NBIRTH, nbirth(0))
    assert said(names, NDATA, payload(metric("", 5, 7), metric("own", 6))) == [(None, 5), ("own", 6)]


def test_after_a_death_the_names_are_gone_with_those_of_the_devices() -> None:
    names = Names()
    said(names, NBIRTH, nbirth(0, 0, 5, metric("a", 1, 7)))
    said(names, DBIRTH, payload(metric("b", 1, 8), seq=1))
    assert said(names, "spBv1.0/g/NDEATH/e", ndeath(0)) == [("bdSeq", 0)]
    names.forget("g/e")
    assert said(names, NDATA, payload(metric("", 5, 7))) == [(None, 5)]
    assert said(names, DDATA, payload(metric("", 5, 8))) == [(None, 5)]


def test_state_is_no_message_of_a_node_and_bad_ones_say_so() -> None:
    names = Names()
    assert names.read("spBv1.0/STATE/host", b"{}") is None
    with pytest.raises(TopicError):
        names.read("plant/line", b"")
    with pytest.raises(PayloadError):
        names.read(NDATA, b"\x12\x05")

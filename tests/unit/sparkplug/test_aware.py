import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkplug.aware import certificate, may_publish, original, stamp_death
from sparkplug.model import Payload
from sparkplug.payload import decode, encode
from sparkplug.source import bd_seq_of
from tests.sparkplug_rig import T0, dbirth, nbirth, ndeath, topic


def test_births_have_a_certificate_and_nothing_else_has() -> None:
    for message in (nbirth(), dbirth(T0, 1)):
        copy = certificate(*message)
        assert copy == "$sparkplug/certificates/" + message[0]
        assert original(copy) == message[0]
    for other in (
        topic("NDATA"),
        topic("NDEATH"),
        "spBv1.0/STATE/NBIRTH",
        "spBv1.0/g/NBIRTH/e/d",
        "spBv1.0/g/DBIRTH/e",
        "x/NBIRTH/y",
        "spBv1.0/NBIRTH/NDATA/e",
        "$sparkplug/certificates/spBv1.0/g/NBIRTH/e",
    ):
        assert certificate(other, b"x") is None
    assert certificate(nbirth()[0], b"") is None  # it would delete the copy
    assert original(topic("NBIRTH")) is None


def test_clients_do_not_publish_below_the_certificates() -> None:
    for forbidden in ("$sparkplug", "$sparkplug/certificates/spBv1.0/g/NBIRTH/e", "$sparkplug/x"):
        assert not may_publish(forbidden)
    for allowed in ("$sparkplugs/x", "spBv1.0/g/NBIRTH/e", "sparkplug/x", "a/$sparkplug/b"):
        assert may_publish(allowed)


def test_a_death_gets_the_time_of_its_delivery_and_stays_what_it_is() -> None:
    where, payload = ndeath(7)
    unknown = b"\xc2\x3e\x03abc"
    for before in (payload, encode(Payload(5)) + payload, b"\x88\x00\x05" + payload):  # none, some, an odd encoding
        after = stamp_death(where, before + unknown, T0)
        assert decode(after).timestamp == T0
        assert bd_seq_of(decode(after).metrics) == 7
        assert after.endswith(payload + unknown)


@pytest.mark.parametrize("other", [topic("NDATA"), topic("DDEATH", "d"), "x/NDEATH/y", "spBv1.0/STATE/NDEATH"])
def test_other_messages_stay_as_they_are(other: str) -> None:
    assert stamp_death(other, b"\x08\x05", T0) == b"\x08\x05"


@pytest.mark.parametrize(
    "payload", [b"\xff", b"\x0a\x05ab", b"\x0b\x0c", b"\x09\x01", b"\x08", b"\x00\x00", b"\xff" * 12]
)
def test_what_is_no_payload_stays_as_it_is(payload: bytes) -> None:
    assert stamp_death(topic("NDEATH"), payload, T0) == payload


@given(st.binary(max_size=40), st.integers(0, 2**63))
def test_any_bytes_are_survived(payload: bytes, now: int) -> None:
    stamp_death(topic("NDEATH"), payload, now)

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkplug.state import State, StateError, decode, encode
from sparkplug.topic import StateTopic, TopicError, parse


def test_the_forms_that_are_written() -> None:
    assert encode(State(True, 1700000000123)) == b'{"online":true,"timestamp":1700000000123}'
    assert encode(State(False, 0)) == b'{"online":false,"timestamp":0}'
    assert encode(State(True, None)) == b"ONLINE"
    assert encode(State(False, None)) == b"OFFLINE"


@given(st.booleans(), st.integers(0, 2**64 - 1))
def test_what_is_written_is_read(online: bool, timestamp: int) -> None:
    assert decode(encode(State(online, timestamp))) == State(online, timestamp)


@pytest.mark.parametrize(
    "payload", [b' \n{ "timestamp" : 5.0, "online":true, "x":[1] }', b'{"online":true,"timestamp":5}']
)
def test_spaces_order_more_keys_and_whole_floats_are_read(payload: bytes) -> None:
    assert decode(payload) == State(True, 5)


def test_words_count_on_a_legacy_topic_only() -> None:
    assert decode(b"ONLINE", legacy=True) == State(True, None)
    assert decode(b" offline\n", legacy=True) == State(False, None)
    assert decode(b'{"online":false,"timestamp":7}', legacy=True) == State(False, 7)
    with pytest.raises(StateError):
        decode(b"ONLINE")


def test_a_cleared_state_says_nothing() -> None:
    assert decode(b"") is None
    assert decode(b"", legacy=True) is None


@pytest.mark.parametrize(
    "payload",
    [
        b'{"online":"true","timestamp":"1700000000123"}',
        b'{"online":true,"timestamp":"1"}',
        b'{"online":1,"timestamp":1}',
        b'{"online":null,"timestamp":1}',
        b'{"online":true}',
        b'{"timestamp":1}',
        b'{"online":true,"timestamp":true}',
        b'{"online":true,"timestamp":-1}',
        b'{"online":true,"timestamp":1.5}',
        b'{"online":true,"timestamp":NaN}',
        b'{"online":true,"timestamp":1e999}',
        b"[true,1]",
        b"true",
        b"\xff\xfe",
        b"[" * 4000,
        b'{"online":true,"timestamp":1,"x":"' + b"x" * 5000 + b'"}',
    ],
)
def test_what_is_no_state_is_refused(payload: bytes) -> None:
    with pytest.raises(StateError):
        decode(payload)


@pytest.mark.parametrize(
    ("topic", "payload", "said"),
    [
        ("spBv1.0/STATE/host1", b'{"online":true,"timestamp":1700000000123}', State(True, 1700000000123)),
        ("spBv1.0/STATE/host1", b'{"online":false,"timestamp":1700000000123}', State(False, 1700000000123)),
        ("STATE/host1", b"ONLINE", State(True, None)),
        ("STATE/host1", b"OFFLINE", State(False, None)),
        ("spBv1.0/STATE/host1", b'{"online":"true","timestamp":"1700000000123"}', StateError),
        ("spBv1.0/STATE/host1", b"", None),
        ("spBv1.0/group/STATE/eon", b"ONLINE", TopicError),  # the private form of one wrapper library
    ],
)
def test_what_hosts_in_the_field_send(topic: str, payload: bytes, said: object) -> None:
    def read() -> object:
        found = parse(topic)
        assert isinstance(found, StateTopic)
        return decode(payload, legacy=found.legacy)

    if isinstance(said, type):
        with pytest.raises(said):
            read()
    else:
        assert read() == said


@given(
    st.binary(max_size=60)
    | st.recursive(st.none() | st.booleans() | st.integers() | st.floats(), st.lists).map(
        lambda value: json.dumps({"online": value, "timestamp": value}).encode()
    )
)
def test_nothing_but_the_error_is_raised(payload: bytes) -> None:
    for legacy in (False, True):
        try:
            decode(payload, legacy=legacy)
        except StateError:
            pass


def test_a_state_follows_what_is_not_newer() -> None:
    assert State(False, 5).follows(None)
    assert State(False, 5).follows(State(True, 5))
    assert State(False, 6).follows(State(True, 5))
    assert not State(False, 4).follows(State(True, 5))
    assert State(False, None).follows(State(True, 5))
    assert State(False, 4).follows(State(True, None))

"""What comes out is what went in, whatever was copied and whatever was kept; packets are those of the encoder."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.mqtt.encode import encode_ack, encode_publish, publish_properties
from gateway.mqtt.outgoing import COPY_MAX, KEEP_MAX, NEAR_MAX, Outgoing
from gateway.mqtt.packets import PUBACK, V5, V311

SIZES = [0, 1, KEEP_MAX, COPY_MAX, COPY_MAX + 1, NEAR_MAX, NEAR_MAX + 1]


@given(st.lists(st.tuples(st.sampled_from(SIZES), st.integers(1, 40), st.booleans()), max_size=8))
def test_all_that_was_written_comes_once_and_in_order(steps: list[tuple[int, int, bool]]) -> None:
    out = Outgoing()
    expected = b""
    for number, (size, times, taken) in enumerate(steps):
        piece = bytes([number]) * size
        for _ in range(times):
            out.write(piece)
        expected += piece * times
        assert out.size == len(expected)
        if taken:
            assert out.take() == expected
            expected = b""
            assert out.size == 0
    assert out.take() == expected
    assert out.take() == b""


@pytest.mark.parametrize("size", [0, 100, 117, 118, 119, 120, 2000, 16_370, 16_373, 16_374, 16_380, 2_100_000])
@pytest.mark.parametrize("version", [V311, V5])
def test_a_publish_is_that_of_the_encoder(version: int, size: int) -> None:
    out = Outgoing()
    props = b"\x01\x01" if version == V5 else b""
    middle = publish_properties(props, -1, 0, None) if version == V5 else b""
    expected = b""
    for packet_id in (1, 258, 32_767, 32_768, 65_535):
        out.write_publish(b"a/b", packet_id, middle, bytes(size))
        expected += encode_publish(version, b"a/b", bytes(size), 1, False, False, packet_id, props)
        assert out.size == len(expected)
    assert out.take() == expected


def test_a_long_topic() -> None:
    out = Outgoing()
    topic = b"t" * 65_535
    out.write_publish(topic, 7, b"", b"x")
    assert out.take() == encode_publish(V311, topic, b"x", 1, False, False, 7, b"")


@pytest.mark.parametrize("packet_id", [1, 255, 256, 65_535])
def test_a_puback_is_that_of_the_encoder(packet_id: int) -> None:
    out = Outgoing()
    out.write_puback(packet_id)
    assert out.size == 4
    assert out.take() == encode_ack(PUBACK, packet_id, 0, V5)

"""The bytes of the plain QoS 1 form are those of the encoder."""

import pytest

from gateway.core.message import Message
from gateway.mqtt.encode import encode_publish


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("payload", [b"", b"x" * 200, b"y" * 20_000])
def test_head_id_and_tail_are_a_publish(version: int, payload: bytes) -> None:
    m = Message(b"a/b", payload, 1, False, b"\x01\x01")
    for packet_id in (1, 258, 65_535):
        made = m.head(version) + packet_id.to_bytes(2, "big") + m.tail(version)
        props = b"\x01\x01" if version == 5 else b""
        assert made == encode_publish(version, b"a/b", payload, 1, False, False, packet_id, props)


def test_the_size_is_what_queues_count() -> None:
    assert Message(b"abc", b"12345", 1, False, b"\x01\x01").size == 10

from gateway.core.message import Message
from gateway.mqtt.encode import publish_properties


def test_the_middle_is_the_properties_with_their_length() -> None:
    assert Message(b"t", b"x", 1, False).middle() == b"\0"
    m = Message(b"t", b"x", 1, False, b"\x01\x01")
    assert m.middle() == publish_properties(b"\x01\x01", -1, 0, None)
    assert m.middle() == b"\x02\x01\x01"


def test_the_size_is_what_queues_count() -> None:
    assert Message(b"abc", b"12345", 1, False, b"\x01\x01").size == 10

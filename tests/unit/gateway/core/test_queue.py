"""The queue of a memory session: its limits and what goes first when it is full."""

from tests.core_rig import broker, connect, fill, session_of


def test_the_queue_of_a_memory_session_drops_qos_0_first() -> None:
    b = broker(max_mqueue_len=2, out_high_bytes=20)
    client = connect(b, "s", clean=True, expiry=0, receive_maximum=1)
    client.subscribe("t", qos=1)
    fill(b, "t", 1, qos=1)
    client.stall()
    fill(b, "t", 6, qos=0)
    s = session_of(b, "s")
    assert s.queue0
    fill(b, "t", 2, qos=1, start=7)
    assert len(s.queue) == 2
    assert not s.queue0
    fill(b, "t", 1, qos=1, start=9)
    assert [d.message.payload for d in s.queue] == [b"8", b"9"]

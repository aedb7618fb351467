"""What a watch keeps of a client until it is asked for."""

from gateway.core.model import Client
from gateway.core.watch import BYTES_MAX, CLOSED, CONNECTED, PUBLISHED, Watch
from gateway.mqtt.packets import PUBACK, Ack, Connect, Publish, Will

WILL = b"spBv1.0/g/NDEATH/e"


def publish(topic: bytes, payload: bytes = b"", alias: int = 0) -> Publish:
    return Publish(payload, topic, 0, 0, 0, 0, False, False, alias=alias)


def connect(client_id: str, will: bytes = b"") -> Connect:
    return Connect(4, client_id, True, 30, will=Will(will, b"x", 1, False) if will else None)


def test_it_fits_by_id_or_by_will() -> None:
    w = Watch("press", WILL)
    assert w.fits("press", connect("press"))
    assert w.fits("another", connect("another", WILL))
    assert not w.fits("another", connect("another", b"spBv1.0/g/NDEATH/f"))
    assert not w.fits("another", connect("another"))
    assert not Watch("", b"").fits("", connect("", b"will")), "nothing fits nobody"


def test_what_was_seen_is_taken_once() -> None:
    w, c = Watch("press", WILL), Client(None, "", 100, 0)
    w.client, w.connection = c, 2
    w.note(CONNECTED, 5, connect("press"))
    w.packet(c, publish(b"a", b"payload"), 6)
    w.packet(c, Ack(PUBACK, 1, 0), 7)
    w.closed(c, 8)
    seen = w.take()
    assert [(one.kind, one.at, one.connection, one.topic) for one in seen] == [
        (CONNECTED, 5, 2, b""),
        (PUBLISHED, 6, 2, b"a"),
        (CLOSED, 8, 2, b""),
    ]
    assert seen[1].publish is not None and seen[1].publish.payload == b"payload"
    assert w.take() == []
    assert w.client is None


def test_a_topic_alias_is_resolved() -> None:
    w, c = Watch("press", WILL), Client(None, "", 100, 0)
    w.client = c
    c.aliases_in[3] = b"long/topic"
    w.packet(c, publish(b"", alias=3), 0)
    assert w.take()[0].topic == b"long/topic"


def test_another_connection_is_not_noted() -> None:
    w, old = Watch("press", WILL), Client(None, "", 100, 0)
    w.client = Client(None, "", 100, 0)
    w.packet(old, publish(b"a"), 0)
    w.closed(old, 0)
    assert w.take() == []
    assert w.client is not None


def test_what_nobody_fetches_has_an_end() -> None:
    w, c = Watch("press", WILL), Client(None, "", 100, 0)
    w.client = c
    half = publish(b"a", b"x" * (BYTES_MAX // 2))
    for _ in range(4):
        w.packet(c, half, 0)
    assert len(w.take()) == 2
    assert w.missed == 2
    w.packet(c, half, 0)
    assert len(w.take()) == 1

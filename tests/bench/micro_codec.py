"""Nanoseconds per call on the codec's hot path."""

from collections.abc import Callable
from time import perf_counter_ns

from gateway.mqtt import encode, packets
from gateway.mqtt.decode import Decoder

COUNT = 400
ROUNDS = 100


def decode_ns(frame: bytes, version: int) -> float:
    """Best time per packet when one read holds COUNT of them."""
    chunk = frame * COUNT
    best = 1e18
    for _ in range(ROUNDS):
        decoder = Decoder(0, version)
        start = perf_counter_ns()
        decoder.feed(chunk)
        while decoder.next() is not None:
            pass
        best = min(best, perf_counter_ns() - start)
    return best / COUNT


def call_ns(call: Callable[[], object]) -> float:
    best = 1e18
    for _ in range(ROUNDS):
        start = perf_counter_ns()
        for _ in range(COUNT):
            call()
        best = min(best, perf_counter_ns() - start)
    return best / COUNT


def rows() -> list[tuple[str, float]]:
    """Names and nanoseconds."""
    topic = b"plant/line1/machine7/temperature"
    payload = bytes(64)
    properties = encode.publish_properties(b"\x01\x01\x26\x00\x01k\x00\x01v", 60, 0, None)[1:]
    qos0 = encode.encode_publish(packets.V311, topic, payload, 0, False, False, 0, b"")
    qos1 = encode.encode_publish(packets.V311, topic, payload, 1, False, False, 7, b"")
    plain = encode.encode_publish(packets.V5, topic, payload, 1, False, False, 7, b"")
    full = encode.encode_publish(packets.V5, topic, payload, 1, False, False, 7, properties)
    puback = encode.encode_ack(packets.PUBACK, 7, 0, packets.V5)
    return [
        ("decode PUBLISH QoS 0, 3.1.1", decode_ns(qos0, packets.V311)),
        ("decode PUBLISH QoS 1, 3.1.1", decode_ns(qos1, packets.V311)),
        ("decode PUBLISH QoS 1, 5.0, no properties", decode_ns(plain, packets.V5)),
        ("decode PUBLISH QoS 1, 5.0, 3 properties", decode_ns(full, packets.V5)),
        ("decode PUBACK", decode_ns(puback, packets.V5)),
        ("publish_head", call_ns(lambda: encode.publish_head(0x32, topic, 67))),
        ("encode_publish QoS 1", call_ns(lambda: encode.encode_publish(5, topic, payload, 1, False, False, 7, b""))),
        ("encode_ack", call_ns(lambda: encode.encode_ack(packets.PUBACK, 7, 0, packets.V5))),
    ]

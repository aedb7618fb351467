"""Nanoseconds per message on the core's hot paths, sockets and disk left out."""

import gc
from collections.abc import Callable, Iterator
from time import perf_counter_ns
from typing import Final

from gateway.core.limits import Limits
from gateway.core.message import Segment
from gateway.core.part import Part
from gateway.core.topics import Subscription, Trie
from gateway.mqtt.encode import encode_ack
from gateway.mqtt.packets import PUBACK, V311, Packet
from tests.bench.core_rig import Rig

COUNT: Final = 1000
ROUNDS: Final = 15
PAYLOAD: Final = bytes(64)


def rig() -> Rig:
    """With windows that hold a whole round."""
    limits = Limits()
    limits.max_inflight = limits.receive_maximum = 65535
    limits.max_mqueue_len = 0
    return Rig(limits)


def best(rounds: Iterator[tuple[int, int]]) -> float:
    """The least time per message of (nanoseconds, messages)."""
    return min(ns / count for ns, count in rounds)


def timed(call: Callable[[], object]) -> int:
    start = perf_counter_ns()
    call()
    return perf_counter_ns() - start


def packets(r: Rig, name: str, data: bytes) -> list[Packet]:
    decoder = r.clients[name].decoder
    decoder.feed(data)
    found = []
    while (packet := decoder.next()) is not None:
        found.append(packet)
    return found


def to_core(r: Rig, name: str, data: bytes) -> int:
    """Nanoseconds that the core takes for packets that are decoded already."""
    client, router, now = r.clients[name], r.router, r.now
    waiting = packets(r, name, data)
    start = perf_counter_ns()
    for packet in waiting:
        router.on_packet(client, packet, now)
    return perf_counter_ns() - start


def acks_of(r: Rig, name: str) -> bytes:
    session = r.clients[name].session
    assert session is not None
    return b"".join(encode_ack(PUBACK, packet_id, 0, V311) for packet_id in list(session.inflight))


def publish0() -> float:
    r = rig()
    r.subscriber("taker", "plant/#", 0, False)
    frames = r.publisher("giver", b"plant/line1", 0, PAYLOAD, COUNT)

    def rounds() -> Iterator[tuple[int, int]]:
        for _ in range(ROUNDS):
            yield to_core(r, "giver", frames), COUNT
            r.take()

    return best(rounds())


def publish1(persistent: bool) -> tuple[float, float]:
    """A QoS 1 publish to a collector that is there, and its acknowledgement."""
    r = rig()
    r.subscriber("taker", "plant/#", 1, persistent)
    frames = r.publisher("giver", b"plant/line1", 1, PAYLOAD, COUNT)
    there: list[tuple[int, int]] = []
    back: list[tuple[int, int]] = []
    for _ in range(ROUNDS):
        there.append((to_core(r, "giver", frames), COUNT))
        r.take()
        back.append((to_core(r, "taker", acks_of(r, "taker")), COUNT))
        answers = r.take()
        assert not persistent or len(answers["giver"]) == 4 * COUNT
        r.commit()
    return best(iter(there)), best(iter(back))


def stored() -> tuple[float, float, float, float]:
    """A QoS 1 publish to a collector that is away; the commit; reading it back; unpacking alone."""
    r = rig()
    r.subscriber("taker", "plant/#", 1, True)
    r.leave("taker")
    r.commit()
    frames = r.publisher("giver", b"plant/line1", 1, PAYLOAD, COUNT)
    found: list[list[tuple[int, int]]] = [[], [], [], []]
    for _ in range(ROUNDS):
        found[0].append((to_core(r, "giver", frames), COUNT))
        start = perf_counter_ns()
        batch = r.router.take_batch(r.now)
        found[1].append((perf_counter_ns() - start, COUNT))
        assert batch is not None
        r.router.on_committed(batch.number, r.now)
        r.take()
        records = batch.records
        start = perf_counter_ns()
        Part(Segment(1), records).all()
        found[3].append((perf_counter_ns() - start, COUNT))
        r.connect("taker", True)
        for token, ids in r.router.take_reads():
            assert ids == [batch.segment_id]
            start = perf_counter_ns()
            r.router.on_segments(token, [(batch.segment_id, records)], r.now)
            found[2].append((perf_counter_ns() - start, COUNT))
        assert len(r.take()["taker"]) > COUNT * len(PAYLOAD)
        to_core(r, "taker", acks_of(r, "taker"))
        r.leave("taker")
        while r.commit() is not None:
            r.now += 2000
    append, close, refill, unpack = (best(iter(one)) for one in found)
    return append, close, refill, unpack


def match() -> float:
    """A topic against 1,000 subscriptions, a tenth with wildcards; one plain filter and three wildcards match."""
    trie = Trie()
    for sid in range(1000):
        trie.add(Subscription(sid, f"plant/line{sid}/+" if sid % 10 == 0 else f"plant/line{sid}/temperature", 1))
    for sid, filter in ((2000, "#"), (2001, "plant/+/temperature")):
        trie.add(Subscription(sid, filter, 1))
    topics = [f"plant/line{number}/temperature" for number in range(COUNT)]

    def all_topics() -> None:
        for topic in topics:
            trie.match(topic)

    return best((timed(all_topics), COUNT) for _ in range(ROUNDS))


def rows() -> list[tuple[str, float]]:
    """Names and nanoseconds."""
    gc.collect()
    gc.freeze()
    memory, memory_ack = publish1(False)
    kept, kept_ack = publish1(True)
    append, close, refill, unpack = stored()
    return [
        ("publish QoS 0: route, append", publish0()),
        ("publish QoS 1, session in memory", memory),
        ("PUBACK, session in memory", memory_ack),
        ("publish QoS 1, persistent, held back", kept),
        ("PUBACK, persistent, nothing to write", kept_ack),
        ("publish QoS 1, persistent and away", append),
        ("take_batch: close and pack a commit of 1,000", close),
        ("a segment of 1,000 read back and sent", refill),
        ("unpack a segment", unpack),
        ("Trie.match, 1,002 subscriptions", match()),
    ]

"""Births of Sparkplug nodes and devices: on disk until no queued message refers to them, shown as certificates.

A birth names what later messages only number. It holds for the messages of its node from its own ingest id up to the
next birth's, so the one before stays as long as some queue still has a message from before the next.
"""

from typing import Final

from mypy_extensions import i64

from gateway.core.backlog import all_backlogs
from gateway.core.fanout import deliver_all
from gateway.core.message import Message
from gateway.core.nodes import NBIRTH, Birth, Source
from gateway.core.record import Corrupt, Reader, u64
from gateway.core.routes import route_of
from gateway.core.stall import must_wait
from gateway.core.state import Core
from sparkplug.aware import certificate

KEY: Final = "birth "  # a row is "birth ID TOPIC"


def row_key(source: Source, birth: Birth) -> str:
    return f"{KEY}{birth.id} {source.topic}"


def keep_birth(core: Core, source: Source, payload: bytes, id: i64, now: i64) -> None:
    """A birth is in force: kept, and retained under its certificate topic
    [tck-id-conformance-mqtt-aware-store, tck-id-conformance-mqtt-aware-nbirth-mqtt-retain].

    ``id`` is the ingest id that it has, or the next one where no queue takes it.
    """
    birth = Birth(id, now + core.nodes.utc_offset_ms, payload)
    births = source.births
    if births and births[-1].id == birth.id:
        births[-1] = birth
    else:
        if births:
            births[-1].payload = b""
        births.append(birth)
        if len(births) == 2:
            core.nodes.superseded.append(source)
    if not must_wait(core):
        core.commit.bridge[row_key(source, birth)] = u64(birth.received) + payload
        core.commit.bytes += len(payload)
        core.lazy(now)
    m = certify(core, source, payload)
    if m is not None:
        deliver_all(core, route_of(core, m.topic.decode()), m, None, False, now)


def certify(core: Core, source: Source, payload: bytes) -> Message | None:
    """The retained copy; it is made of the kept birth at each start."""
    topic = certificate(source.topic, payload)
    if topic is None:
        return None
    m = Message(topic.encode(), payload, 1, True)
    core.retained.set(topic, m)
    return m


def prune(core: Core, now: i64) -> None:
    """Let go of births that no queued message refers to any more."""
    low: i64 = core.next_seq
    for b in all_backlogs(core):
        low = min(low, b.lowest(core.next_seq))
    for segment in core.kept.segments.values():  # somebody may still begin with these
        low = min(low, segment.first)
    left: list[Source] = []
    for source in core.nodes.superseded:
        births = source.births
        while len(births) > 1 and births[1].id <= low:
            core.commit.bridge[row_key(source, births.pop(0))] = None
            core.lazy(now)
        if len(births) > 1:
            left.append(source)
    core.nodes.superseded = left


def load_births(core: Core, rows: list[tuple[str, bytes]], now: i64) -> None:
    """At the start: births, certificates, and the state of the nodes that they tell of."""
    for key, data in rows:
        if not key.startswith(KEY):
            continue
        id, _, topic = key[len(KEY) :].partition(" ")
        source = core.nodes.source_of(topic)
        try:
            r = Reader(data)
            received = r.u64()
        except Corrupt:
            source = None
        if source is None or not id.isdecimal():
            core.alarms.append(f"stored birth {key!r} makes no sense: left out")
            core.commit.bridge[key] = None
            core.lazy(now)
            continue
        source.births.append(Birth(int(id), received, r.take(r.end - r.at)))
        core.next_seq = max(core.next_seq, int(id))
    for source in core.nodes.sources.values():
        births = source.births
        if not births:
            continue
        births.sort(key=birth_id)
        if len(births) > 1:
            core.nodes.superseded.append(source)
            for old in births[:-1]:
                old.payload = b""
        payload = births[-1].payload
        certify(core, source, payload)
        scan = core.nodes.scan
        if source.kind == NBIRTH and scan.read(payload, True):
            node = source.node
            node.born = True
            node.bd_seq = scan.bd_seq
            node.birth_time = scan.timestamp
            source.rebirth = scan.rebirth


def birth_id(birth: Birth) -> int:
    return birth.id


def birth_at(source: Source, id: int) -> Birth | None:
    """The birth that a message with this ingest id refers to; None when it came before all that are kept."""
    found: Birth | None = None
    for birth in source.births:
        if birth.id > id:
            break
        found = birth
    return found

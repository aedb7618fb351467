"""Births of Sparkplug nodes and devices: on disk until no queued message refers to them, shown as certificates.

A birth names what later messages only number. It holds for the messages of its node from its own ingest id up to the
next birth's, so the one before stays as long as some queue still has a message from before the next.
"""

from collections.abc import Iterable
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


def load_births(core: Core, rows: Iterable[tuple[str, bytes]], now: i64) -> None:
    """At the start: births, certificates, and the state of the nodes that they tell of.

    While the bridge is off nobody follows the nodes: what is kept of before would be shown as if it still held.
    """
    for key, data in rows:
        if not key.startswith(KEY):
            continue
        if not core.limits.bridge:
            core.commit.bridge[key] = None
            core.lazy(now)
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
        birth = Birth(int(id), received, b"")
        core.next_seq = max(core.next_seq, birth.id)
        births = source.births
        if not births or birth.id > births[-1].id:
            if births:
                births[-1].payload = b""
            birth.payload = r.take(r.end - r.at)
            births.append(birth)
        else:
            births.insert(0, birth)
    for source in core.nodes.sources.values():
        births = source.births
        if not births:
            continue
        births.sort(key=birth_id)
        if len(births) > 1:
            core.nodes.superseded.append(source)
        payload = births[-1].payload
        certify(core, source, payload)
        scan = core.nodes.scan
        if source.kind == NBIRTH and scan.read(payload, True):
            node = source.node
            node.born = True
            node.bd_seq = scan.bd_seq
            node.birth_time = scan.timestamp
            source.rebirth = scan.rebirth


def forget_births(core: Core, now: i64) -> None:
    """The bridge is switched off."""
    for source in core.nodes.sources.values():
        for birth in source.births:
            core.commit.bridge[row_key(source, birth)] = None
            core.lazy(now)
        if source.births:
            topic = certificate(source.topic, source.births[-1].payload)
            if topic is not None:
                core.retained.remove(topic)
        source.births = []
    for node in core.nodes.by_key.values():
        node.born = False
        node.expected = -1
        node.missing.clear()
    core.nodes.superseded = []


def birth_id(birth: Birth) -> int:
    return birth.id

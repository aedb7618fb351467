"""Sparkplug messages on arrival: live, late or here already; and the envelope that says so.

The payload stays as it came: of it only sequence number, timestamp and bdSeq are looked at. What is decided here is
what collectors are told beside it, and what counts as a gap.
"""

from typing import Final

from mypy_extensions import i64

from gateway.core.envelope import PREFIX, tail_of
from gateway.core.message import Message
from gateway.core.model import Client, Route
from gateway.core.nodes import (
    BORN,
    COMMAND,
    DBIRTH,
    DIED,
    EARLY,
    FILLED,
    GAP,
    LEFT,
    NBIRTH,
    NDEATH,
    OLD_BIRTH,
    STALE_DEATH,
    Event,
    Node,
    Source,
)
from gateway.core.record import Corrupt, Reader
from gateway.core.state import Core

LIVE: Final = 0
LATE: Final = 1
REPEATED: Final = 2

IDS_KEY: Final = "ingest.ids"  # in the store's meta: ids below it may have been given
ID_BLOCK: Final = 65_536
SEQ: Final = 256
AHEAD_MS: Final = 60_000  # what a node's clock may be ahead of ours


def reserve(core: Core) -> None:
    """Ids come from blocks whose end is on disk before they are seen: a crash never gives one twice."""
    if core.nodes.ids_wanted - core.next_seq < ID_BLOCK // 2:
        core.nodes.ids_wanted = core.next_seq + ID_BLOCK
        wanted: int = core.nodes.ids_wanted
        core.commit.meta[IDS_KEY] = wanted
        core.commit.ids_end = wanted
        core.commit.urgent = True


def enclosed(core: Core, m: Message, late: i64, now: i64) -> Message:
    """What collectors get of ``m``: the same at QoS 1 at least, with an envelope, and only once it is on disk.

    Its ingest id is its position in the log.
    """
    reserve(core)
    qos: int = m.qos
    made = Message(m.topic, m.payload, qos if qos else 1, m.retain, own_only(m.props), m.deadline)
    made.received = now + core.nodes.utc_offset_ms
    made.tail = tail_of(m.qos, late, core.nodes.utc_exact)
    made.waits = True
    return made


def own_only(props: bytes) -> bytes:
    """Without what a publisher may have written into the envelope itself."""
    if not props or PREFIX not in props:
        return props
    out = b""
    r = Reader(props)
    try:
        while r.more():
            start = r.at
            kind = r.u8()
            ours = False
            if kind == 1:
                r.take(1)
            elif kind == 0x26:
                ours = r.take(r.u16()).startswith(PREFIX)
                r.take(r.u16())
            else:
                r.take(r.u16())
            if not ours:
                out += props[start : r.at]
    except Corrupt:  # the decoder has checked them
        return b""
    return out


def arrive(core: Core, c: Client | None, source: Source, payload: bytes, qos: i64, now: i64) -> i64:
    """Take note of a message of a node (not of a command): LIVE, LATE, or REPEATED, which is to be given to nobody.

    ``c`` is None for a will. Call it once, when nothing can put the message off any more.
    """
    node = source.node
    kind = source.kind
    source.count(qos)
    scan = core.nodes.scan
    if not scan.read(payload, kind == NBIRTH or kind == NDEATH) or (kind <= DBIRTH and not payload):
        source.unreadable += 1
        if kind > DBIRTH:
            return LIVE
        source.late += 1  # a birth that says nothing: the one in force stays
        return LATE
    if kind == NDEATH:
        return on_death(core, source, now)
    if scan.historical:
        source.historical += 1
    if qos and scan.seq >= 0 and scan.timestamp > 0 and is_repeated(node, c, source, payload, scan.seq):
        source.repeated += 1
        return REPEATED
    if kind == NBIRTH:
        verdict = on_birth(core, c, source, now)
    else:
        verdict = on_data(core, c, source, now)
    if verdict == LATE:
        source.late += 1
    else:
        node.heard = now + core.nodes.utc_offset_ms
        tap = node.tap
        if tap is not None:
            tap.note(source.kind, source.device, payload)
    return verdict


def is_repeated(node: Node, c: Client | None, source: Source, payload: bytes, seq: i64) -> bool:
    """Whether it came before: same topic, sequence number and bytes, the payload's own time among them.

    A counter that has gone round brings the same number in its order, so what is in order is no repetition.
    """
    hashes = node.hashes
    if hashes is None:
        hashes = [0] * SEQ
        node.hashes = hashes
        node.epochs = [-1] * SEQ
    found = hash(payload) ^ source.salt
    at: int = seq
    epoch: int = node.epoch
    in_order = seq == node.expected and node.epochs[at] == epoch
    if hashes[at] == found and node.epochs[at] >= 0 and not in_order:
        if node.client is not c or node.epochs[at] != epoch:
            source.resent += 1
        return True
    hashes[at] = found
    node.epochs[at] = epoch + 1 if source.kind == NBIRTH else epoch
    return False


def tell(core: Core, kind: int, node: Node, source: Source | None, now: i64, a: i64, b: i64) -> None:
    at: int = now + core.nodes.utc_offset_ms
    first: int = a
    second: int = b
    core.nodes.events.append(Event(kind, node, source, at, first, second))


def on_death(core: Core, source: Source, now: i64) -> i64:
    """[tck-id-operational-behavior-edge-node-birth-sequence-wait]: of another session than this one it says nothing."""
    node = source.node
    bd_seq = core.nodes.scan.bd_seq
    if node.born and bd_seq >= 0 and node.bd_seq >= 0 and bd_seq != node.bd_seq:
        source.late += 1
        tell(core, STALE_DEATH, node, source, now, bd_seq, node.bd_seq)
        return LATE
    if node.born:
        tell(core, DIED, node, source, now, bd_seq, node.bd_seq)
    node.born = False
    node.dead_bd_seq = bd_seq
    node.expected = -1
    node.missing = set()
    return LIVE


def was_ahead(core: Core, node: Node, now: i64) -> bool:
    """Its birth bears a time that is still to come: its clock was wrong then, and has been set back."""
    return core.nodes.utc_exact and node.birth_time > now + core.nodes.utc_offset_ms + AHEAD_MS


def on_birth(core: Core, c: Client | None, source: Source, now: i64) -> i64:
    node = source.node
    scan = core.nodes.scan
    time = scan.timestamp
    same = c is not None and node.client is c
    if same and node.born and 0 < time < node.birth_time and not was_ahead(core, node, now):
        tell(core, OLD_BIRTH, node, source, now, time, node.birth_time)
        return LATE
    doubtful = not node.born and scan.bd_seq >= 0 and scan.bd_seq == node.dead_bd_seq
    if c is not None and not same:
        old = node.client
        if old is not None and node in old.nodes:
            old.nodes.remove(node)
        c.nodes.append(node)
    node.client = c
    node.speaker = None
    node.born = True
    node.epoch += 1
    node.bd_seq = scan.bd_seq
    node.dead_bd_seq = -1
    node.birth_time = time
    node.newest = time
    node.expected = -1 if scan.seq < 0 else (scan.seq + 1) % SEQ
    node.missing = set()
    node.early = False
    source.rebirth = scan.rebirth
    tell(core, BORN, node, source, now, 1 if doubtful else 0, scan.bd_seq)
    return LIVE


def on_data(core: Core, c: Client | None, source: Source, now: i64) -> i64:
    """All but NBIRTH and NDEATH."""
    node = source.node
    scan = core.nodes.scan
    if not node.born or node.client is None:
        if not node.early:
            node.early = True
            node.speaker = c
            tell(core, EARLY, node, source, now, scan.seq, 0)
        return LATE
    time = scan.timestamp
    seq = scan.seq
    expected = node.expected
    if seq < 0 or expected < 0:
        if seq >= 0:
            node.expected = (seq + 1) % SEQ
        return LATE if scan.historical or 0 < time < node.birth_time else LIVE
    if seq == expected:
        node.expected = (seq + 1) % SEQ
        if time > node.newest:
            node.newest = time
        return LATE if scan.historical else LIVE
    ahead = (seq - expected + SEQ) % SEQ
    if scan.historical or 0 < time < node.birth_time or (ahead >= SEQ // 2 and 0 < time < node.newest):
        if source.kind == DBIRTH:
            tell(core, OLD_BIRTH, node, source, now, time, node.birth_time)
        found: int = seq
        if found in node.missing:
            node.missing.remove(found)
            if not node.missing:
                tell(core, FILLED, node, source, now, 0, 0)
        return LATE
    tell(core, GAP, node, source, now, expected, seq)
    at = expected
    while at != seq:
        left_out: int = at
        node.missing.add(left_out)
        at = (at + 1) % SEQ
    node.expected = (seq + 1) % SEQ
    if time > node.newest:
        node.newest = time
    return LIVE


def connection_ended(core: Core, c: Client, clean: bool, now: i64) -> None:
    """Its nodes have to be born anew, here or elsewhere."""
    for node in c.nodes:
        tell(core, LEFT, node, None, now, 1 if clean else 0, 0)
        node.client = None
    c.nodes = []


def forget_repeats(core: Core) -> None:
    """Publishes were given back to their publishers: when they come again they are no repetitions."""
    for node in core.nodes.by_key.values():
        node.forget()


def command_deadline(core: Core, route: Route, deadline: i64, now: i64) -> i64:
    """A command that comes late does harm."""
    source = route.source
    if source is None or source.kind < COMMAND or not core.limits.command_expiry_ms:
        return deadline
    last = now + core.limits.command_expiry_ms
    return min(deadline, last) if deadline else last

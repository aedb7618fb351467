"""The face of the core: packets, commits, reads and time go in; bytes, batches and closes are taken out.

No I/O, no clock: ``now`` is gateway time in ms. Nothing here raises for what a peer does wrong.
"""

from collections.abc import Iterator
from typing import final

from mypy_extensions import i64

from gateway.core import (
    acks,
    births,
    calls,
    dead,
    lifecycle,
    load,
    pacing,
    paths,
    probing,
    publish,
    ranks,
    reads,
    report,
    rules,
    subscribe,
    upkeep,
)
from gateway.core.answers import pong, release_acks
from gateway.core.batch import Batch, Snapshot
from gateway.core.committed import committed
from gateway.core.discard import NO_QUEUE, PRESENT, discard
from gateway.core.engine_port import EnginePort
from gateway.core.facts import facts
from gateway.core.feed import feed
from gateway.core.limits import Limits
from gateway.core.model import Client, Session
from gateway.core.port import BridgePort
from gateway.core.pump import pump
from gateway.core.shared import pump_groups, regroup
from gateway.core.stall import take_batch
from gateway.core.state import Core
from gateway.core.uplinks import UplinkPort
from gateway.mqtt.encode import encode
from gateway.mqtt.errors import PacketError
from gateway.mqtt.packets import (
    CONNECT,
    DISCONNECT,
    PINGREQ,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBSCRIBE,
    UNSUBSCRIBE,
    V5,
    Ack,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Publish,
    Subscribe,
    Unsubscribe,
)
from gateway.mqtt.reasons import PROTOCOL_ERROR, SERVER_SHUTTING_DOWN, UNSUPPORTED_PROTOCOL_VERSION, reason_name


@final
class Router:
    def __init__(
        self,
        limits: Limits,
        snapshot: Snapshot | None,
        now: int,
        seed: int,
        version: str = "",
        utc_ms: int = 0,
        utc_exact: bool = False,
    ) -> None:
        self.core = Core(limits, now, seed)
        self.bridge = BridgePort(self.core)
        self.uplinks = UplinkPort(self.core)
        self.engine = EnginePort(self.core)
        self.bridge.set_utc(utc_ms, utc_exact, now)
        self.core.flush = paths.flush_cache(limits)
        self.core.door.meter = pacing.shared_meter(self.core, now)
        self.version = version
        if snapshot is not None:
            load.load(self.core, snapshot, now)

    # at the start

    def needed_segments(self) -> list[int]:
        """Segments whose records finish_load() must see."""
        return list(self.core.needed)

    def finish_load(self, rows: list[tuple[int, bytes]], now: int) -> None:
        load.finish(self.core, rows, now)

    # in: connections

    def full(self) -> bool:
        most = self.core.limits.max_connections
        return most != 0 and len(self.core.clients) >= most

    def open(self, link: object, peer: str, now: int) -> Client:
        c = Client(link, peer, self.core.limits.max_packet_bytes, now)
        self.core.clients[c] = True
        return c

    def on_packet(self, c: Client, p: Packet, now: i64) -> None:
        """A packet that the decoder yielded; while ``c.blocked`` the driver brings no more."""
        core = self.core
        if c.closing:
            return
        core.ledger.packets_received += 1
        c.heard = now
        s = c.session
        try:
            if p.type == PUBLISH and s is not None:
                assert isinstance(p, Publish)
                if c.meter is None or pacing.may_go_on(core, c, s, c.meter, p, now):
                    publish.on_publish(core, c, s, p, now)
            elif p.type == CONNECT:
                assert isinstance(p, Connect)
                lifecycle.on_connect(core, c, p)
            elif s is not None:
                self._on_other(c, s, p, now)
            elif c.remote is not None:
                calls.on_first(core, c, c.remote, p, now)
            else:
                raise PacketError(PROTOCOL_ERROR, "CONNECT must come first")  # [MQTT-3.1.0-1]
        except PacketError as e:
            self.on_bad_packet(c, e.reason, e.text, now)

    def _on_other(self, c: Client, s: Session, p: Packet, now: i64) -> None:
        core = self.core
        type = p.type
        if type == PUBACK:
            assert isinstance(p, Ack)
            acks.on_puback(core, s, p, now)
        elif type == PUBREC:
            assert isinstance(p, Ack)
            acks.on_pubrec(core, c, s, p, now)
        elif type == PUBREL:
            assert isinstance(p, Ack)
            publish.on_pubrel(core, c, s, p)
        elif type == PUBCOMP:
            assert isinstance(p, Ack)
            acks.on_pubcomp(core, s, p, now)
        elif c.remote is not None:
            calls.on_other(core, c, s, c.remote, p, now)
        elif type == PINGREQ:
            pong(core, c)
        elif type == SUBSCRIBE:
            assert isinstance(p, Subscribe)
            subscribe.on_subscribe(core, c, s, p, now)
        elif type == UNSUBSCRIBE:
            assert isinstance(p, Unsubscribe)
            subscribe.on_unsubscribe(core, c, s, p, now)
        elif type == DISCONNECT:
            assert isinstance(p, Disconnect)
            lifecycle.on_disconnect(core, c, s, p, now)
        else:
            raise PacketError(PROTOCOL_ERROR, "a client must not send this packet")

    def on_bad_packet(self, c: Client, reason: int, text: str, now: int) -> None:
        """The peer broke a rule: v5 is told, and the connection ends."""
        if c.closing:
            return
        core = self.core
        name = c.session.client_id if c.session is not None else c.peer
        core.log.append(f"{name}: {text} ({reason_name(reason)}): closed")
        if c.remote is not None:
            c.remote.last_word = text
        if not c.connected and c.session is None:
            if reason == UNSUPPORTED_PROTOCOL_VERSION:
                core.send(c, encode(Connack(False, 1), 4))
            elif c.version == V5 and c.connect is None:
                core.send(c, encode(Connack(False, reason), V5))
        lifecycle.disconnect(core, c, reason, now)

    def on_authenticated(self, c: Client, ok: bool, now: int) -> None:
        lifecycle.on_authenticated(self.core, c, ok, now)

    def on_closed(self, c: Client, now: int) -> None:
        """The socket is gone."""
        core = self.core
        c.closed = True
        core.waiting -= c.unsent
        c.unsent = 0
        core.clients.pop(c, False)
        if c.parked is not None and c in core.parked:
            core.parked.remove(c)
        s = c.session
        if s is not None:
            lifecycle.detach(core, c, s, False, now)
        c.acks.clear()
        c.recs.clear()
        if c.watch is not None:
            probing.closed(c, now)
        if c.remote is not None:
            calls.closed(core, c, c.remote)

    def on_writable(self, c: Client, unsent: int, now: int) -> None:
        """After every write, and when the transport could write again: ``unsent`` bytes are still with it.

        Who leaves too many of its answers there is read no further.
        """
        self.core.waiting += unsent - c.unsent
        c.unsent = unsent
        flush = self.core.flush
        if flush is not None and c.waiting == 0:
            flush.flushed(c, now)
        high = self.core.high()
        if unsent > high:
            c.congested = True
            c.set_quick()
            # deliveries stop at ``high``, so the rest are answers that it asks for and does not read
            limits = self.core.limits
            if unsent > 2 * limits.out_high_bytes + limits.max_packet_bytes and c.connected:
                c.deaf = True
                self.core.block(c)
        elif c.congested and unsent + c.out.size <= high // 2:
            c.congested = False
            c.set_quick()
            s = c.session
            if s is not None:
                pump(self.core, s, now)
                pump_groups(self.core, s, now)
                if self.core.parked:
                    self.core.retry = True
                feed(self.core, s, now)
            if c.deaf:
                c.deaf = False
                if c.connected:
                    self.core.unblock(c)
        elif c.more and not c.congested:
            c.more = False
            s = c.session
            if s is not None:
                pump(self.core, s, now)

    # in: the store

    def on_committed(self, number: int, now: int) -> None:
        committed(self.core, number, now)
        if self.core.uplinks.buried:
            dead.kept(self.core, now)

    def on_commit_failed(self, number: int, text: str, now: int) -> None:
        upkeep.failed(self.core, text, now)

    def on_segments(self, token: int, rows: list[tuple[int, bytes]], now: int) -> None:
        reads.arrived(self.core, token, rows, now)

    def on_store_usage(self, used_bytes: int, now: int) -> None:
        core = self.core
        if used_bytes < core.used_bytes:
            core.retry = True
        core.used_bytes = used_bytes

    # in: time

    def on_tick(self, now: int) -> int:
        core = self.core
        core.told = 0
        due = upkeep.tick(core, now)
        core.told = due
        if core.limits.sys_interval_ms and now >= core.sys_at:
            core.sys_at = now + core.limits.sys_interval_ms
            report.publish_sys(core, self.version, now)
        return due

    def paced(self) -> bool:
        """A queue waits for its drain rate: the finer the ticks, the smaller what goes out at a time."""
        return len(self.core.apps.paced) > 0

    def wake_at(self) -> int:
        """Gateway ms of something due earlier than the last on_tick() said, told once; 0 = nothing."""
        core = self.core
        at = core.wake_at
        core.wake_at = 0
        if at:
            core.told = at
        return at

    def reload(self, limits: Limits, now: int) -> None:
        if self.core.limits.bridge and not limits.bridge:
            births.forget_births(self.core, now)
        self.core.limits = limits
        paths.reload(self.core)
        pacing.reload(self.core, now)
        rules.apply_all(self.core)
        ranks.reload(self.core, now)
        subscribe.withdraw(self.core, now)
        self.core.routes = {}
        self.core.trie.generation += 1
        for g in list(self.core.group_by_sid.values()):
            regroup(self.core, g, now)

    def shutdown(self, now: int) -> None:
        """Every connection ends; what waits goes with the last commits."""
        core = self.core
        core.stopping = True
        for c in list(core.clients):
            lifecycle.disconnect(core, c, SERVER_SHUTTING_DOWN, now)
        core.commit.lazy_at = now

    # out

    def take_sends(self) -> list[Client]:
        core = self.core
        if core.answering:
            answering = core.answering
            core.answering = []
            for c in answering:
                c.answering = False
                release_acks(core, c)
        sends = core.sends
        core.sends = []
        for c in sends:
            c.in_sends = False
        return sends

    def take_batch(self, now: int) -> Batch | None:
        if self.core.uplinks.dead:
            dead.publish(self.core, now)
        return take_batch(self.core, now)

    def take_reads(self) -> list[tuple[int, list[int]]]:
        reads = self.core.reads
        self.core.reads = []
        return reads

    def take_auth(self) -> list[Client]:
        auth = self.core.door.asking
        self.core.door.asking = []
        return auth

    def take_resumed(self, now: int) -> list[Client]:
        """Clients that may go on; those that waited for room are tried again here."""
        core = self.core
        if core.retry:
            core.retry = False
            self._retry_parked(now)
        resumed = core.resumed
        core.resumed = []
        return resumed

    def _retry_parked(self, now: int) -> None:
        core = self.core
        waiting = core.parked
        core.parked = []
        for c in waiting:
            p = c.unpark()
            if p is None or c.closed or c.closing:
                continue
            self.on_packet(c, p, now)
            if c.parked is None:
                core.unblock(c)

    def take_alarms(self) -> list[str]:
        """What an operator should know: trouble with the disk, messages lost, and their end."""
        alarms = self.core.alarms
        self.core.alarms = []
        return alarms

    def busy(self, now: i64) -> bool:
        """Whether the driver should ask for more than sends; spares it the questions in most turns."""
        core = self.core
        if core.door.asking or core.reads or core.wake_at or core.log or core.alarms or core.nodes.events:
            return True
        if core.uplinks.events or (core.engine.on and core.engine.busy()):
            return True
        flying = core.flying
        if flying is not None:
            return not flying.submitted
        commit = core.commit
        return commit.urgent or (commit.lazy_at != 0 and now >= commit.lazy_at)

    def take_log(self) -> list[str]:
        """What peers cause, at any rate."""
        log = self.core.log
        self.core.log = []
        return log

    # out: what it says of itself

    def status(self, now: int) -> dict[str, object]:
        return report.status(self.core, now)

    def sessions(self, now: int) -> Iterator[dict[str, object]]:
        """Good for use over many turns."""
        return report.session_rows(self.core, now)

    def longest(self, most: int, now: int) -> list[dict[str, object]]:
        """At most so many sessions and groups, those with the longest queues first, in brief."""
        return report.longest(self.core, most, now)

    def facts(self, now: int) -> dict[str, object]:
        """What is known of clients and flows, for who judges them."""
        return facts(self.core, now)

    def session(self, client_id: str, now: int) -> dict[str, object] | None:
        s = self.core.sessions.get(client_id)
        if s is not None:
            return report.session_row(self.core, s, now)
        g = self.core.groups.get(client_id)
        return report.group_row(self.core, g, now) if g is not None else None

    def remove_session(self, client_id: str, now: int) -> bool:
        """The operator ends a session, connected or not; what waited for it is dropped and counted."""
        core = self.core
        s = core.sessions.get(client_id)
        if s is None:
            return False
        if s.client is not None:
            lifecycle.disconnect(core, s.client, 0x98, now)  # administrative action
        s = core.sessions.get(client_id)
        if s is not None:
            lifecycle.end_session(core, s, now)
        self.uplinks.removed(client_id, now)
        self.engine.removed(client_id, now)
        return True

    def discard(self, client_id: str, now: int) -> int:
        """The operator drops what waits for a session that is away: how many messages, NO_QUEUE or PRESENT."""
        s = self.core.sessions.get(client_id)
        if s is None or s.backlog is None:
            return NO_QUEUE
        if s.client is not None:
            return PRESENT
        return discard(self.core, s, now)

    @property
    def meta(self) -> dict[str, int | str]:
        """Goes with the next commit."""
        return self.core.commit.meta

    def received(self, n: int) -> None:
        self.core.ledger.bytes_received += n

    def sent(self, n: int) -> None:
        self.core.ledger.bytes_sent += n

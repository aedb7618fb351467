"""What the engine's driver has of the core: messages for the engine come out, its own go in, and who reads what."""

from typing import Final, final

from mypy_extensions import i64

from gateway.core import outer, report
from gateway.core.acks import on_puback
from gateway.core.engine import ENGINE_ID, Arrived, EngineEvent
from gateway.core.lifecycle import detach, disconnect, end_session, go_on
from gateway.core.model import Client, Session
from gateway.core.pump import pump
from gateway.core.resident import resident, subscribed
from gateway.core.rules import apply
from gateway.core.state import Core
from gateway.mqtt.decode import Decoder
from gateway.mqtt.packets import PUBACK, V5, Ack, Filter, Publish
from gateway.mqtt.reasons import SESSION_TAKEN_OVER

NO_IDS_END: Final = 0x7FFFFFFFFFFF  # a connection that no crash outlives needs no ids kept from another


@final
class EnginePort:
    """``now`` is gateway time in ms. The engine is a session of the core, there from configure() on, up or not."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def configure(self, on: bool, capture: list[str], now: int) -> None:
        """Whether APPLICATIONs get the topics of these filters from an engine; called once, before anybody comes in.

        What waited for the engine when there was one still waits, and is told in an alarm where there is none.
        """
        core = self._core
        core.engine.on = on
        core.engine.capture = capture if on else []
        core.engine.settled = []
        s = core.sessions.get(ENGINE_ID)
        if on:
            self._write(now)
        elif s is not None:
            subscribed(core, s, [], now)
            if s.owed():
                core.alarms.append(f"{s.owed()} messages wait for an engine, and none is configured")
            else:
                end_session(core, s, now)
        for one in list(core.by_sid.values()):
            outer.known(core, one)
        core.trie.generation += 1

    def _write(self, now: i64) -> None:
        """The session that writes to the engine."""
        core = self._core
        s = resident(core, ENGINE_ID)
        s.id_end = NO_IDS_END
        s.id_wanted = NO_IDS_END
        core.engine.writer = s
        core.engine.recorded = core.engine.drained
        subscribed(core, s, [Filter(filter, 1, False, True, 2) for filter in core.engine.capture], now)

    # what the engine takes

    def attach(self, link: object, name: str, window: int, largest: int, now: int) -> None:
        """The engine takes messages from now on, ``window`` at a time; larger PUBLISHes than ``largest`` bytes are
        dropped, counted (0 = no limit).
        """
        core = self._core
        s = core.engine.writer
        if s is None or s.client is not None:
            return
        c = Client(link, name, core.limits.max_packet_bytes, now)
        c.decoder = Decoder(core.limits.max_packet_bytes + largest, V5)
        c.version = V5
        c.session = s
        c.window = window
        c.max_packet = largest
        c.simple = largest == 0 or largest >= core.limits.max_packet_bytes
        c.in_sends = True  # no socket: the driver takes what it gets after each turn
        s.client = c
        s.version = V5
        s.slow = False
        apply(core, s)
        core.engine.client = c
        go_on(core, c, s, now)

    def detach(self, now: int) -> None:
        """It takes none: what it has not acknowledged goes to the store here, and waits for attach()."""
        core = self._core
        c = core.engine.client
        core.engine.client = None
        if c is not None:
            core.waiting -= c.unsent
            c.unsent = 0
            c.closing = True
            c.closed = True
            s = c.session
            if s is not None:
                detach(core, c, s, False, now)

    @property
    def attached(self) -> bool:
        """False as well when an operator has ended the session: detach() and attach() make it anew."""
        c = self._core.engine.client
        return c is not None and not c.closing

    def take(self) -> list[Publish]:
        """What the engine is to get next, in its order; those with a packet id want kept()."""
        out: list[Publish] = []
        c = self._core.engine.client
        if c is None or c.out.size == 0:
            return out
        decoder = c.decoder
        decoder.feed(c.take())
        while True:
            p = decoder.next()
            if p is None:
                return out
            if isinstance(p, Publish):
                out.append(p)

    def unsent(self, size: int, now: int) -> None:
        """So many bytes of what was taken wait with the driver: too many, and no more comes."""
        core = self._core
        c = core.engine.client
        if c is None or c.session is None:
            return
        core.waiting += size - c.unsent
        c.unsent = size
        high = core.high()
        if size > high and not c.congested:
            c.congested = True
            c.set_quick()
        elif c.congested and size <= high // 2:
            c.congested = False
            c.set_quick()
            pump(core, c.session, now)

    def kept(self, packet_ids: list[int], now: int) -> None:
        """The engine has these for good."""
        core = self._core
        c = core.engine.client
        s = c.session if c is not None else None
        if s is None:
            return
        for packet_id in packet_ids:
            on_puback(core, s, Ack(PUBACK, packet_id, 0), now)

    def repeats(self) -> int:
        """How many messages of the store here a crash would give the engine again; 0 while the disk takes nothing."""
        core = self._core
        flying = core.flying
        if core.error_since or (flying is not None and flying.hangs):
            return 0
        return core.engine.drained - core.engine.recorded

    def take_news(self) -> bool:
        """Whether ``repeats`` may be fewer than at the last call."""
        engine = self._core.engine
        news = engine.news
        engine.news = False
        return news

    # who reads

    def take_events(self) -> list[EngineEvent]:
        """What happened to APPLICATIONs since the last call, in its order."""
        engine = self._core.engine
        events = engine.events
        engine.events = []
        return events

    def room(self, client_id: str, most: int) -> int:
        """How many messages it may be given, of at most so many that are not settled; 0 while it is not there."""
        s = self._core.sessions.get(client_id)
        if s is None:
            return 0
        return outer.room(self._core, s, most)

    def bring(self, client_id: str, arrived: list[Arrived], now: int) -> None:
        """The next messages of its cursor."""
        s = self._core.sessions.get(client_id)
        if s is not None:
            outer.bring(self._core, s, arrived, now)

    def taken(self, client_id: str, now: int) -> None:
        """It reads at another gateway now."""
        s = self._core.sessions.get(client_id)
        if s is not None and s.client is not None:
            disconnect(self._core, s.client, SESSION_TAKEN_OVER, now)

    def drain_rate(self, client_id: str) -> int:
        """Messages/s that it is to get at most, 0 = no limit."""
        s = self._core.sessions.get(client_id)
        if s is None:
            return 0
        return s.drain_rate

    def earliest(self, client_id: str) -> bool:
        """Whether it begins with what the log still has, when it is new."""
        s = self._core.sessions.get(client_id)
        return s is not None and outer.earliest(self._core, s)

    def take_settled(self) -> list[tuple[str, int]]:
        """Client id and position of what is over and done with: acknowledged, dropped, or not asked for."""
        engine = self._core.engine
        settled = engine.settled
        engine.settled = []
        return settled

    # what is shown

    def row(self, now: int) -> dict[str, object] | None:
        """What ``forebay sessions`` shows of the session that writes."""
        s: Session | None = self._core.engine.writer
        return None if s is None else report.session_row(self._core, s, now, True)

    def removed(self, client_id: str, now: int) -> None:
        """An operator has ended this session: that of the engine begins anew, with nothing that waits."""
        if self._core.engine.on and client_id == ENGINE_ID:
            self._write(now)

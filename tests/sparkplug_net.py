"""A network in memory for Sparkplug machines: servers, links that lose, repeat and reorder, and virtual time.

What the clients send and receive is told to ``observe`` as the checker wants it.
"""

import heapq
import random
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from sparkplug.actions import Action, Connect, Disconnect, Offline, Publish, Subscribe
from sparkplug.aware import certificate, may_publish, stamp_death
from sparkplug.check.matching import matches
from sparkplug.check.observed import Connected, Delivered, Disconnected, Marked, Observation, Published, Subscribed
from tests.sparkplug_rig import T0

LATENCY_MS = 1


class Net:
    """Virtual time and the faults of the links from the servers; the links to them are TCP without faults."""

    def __init__(self, seed: int = 0, observe: Callable[[Observation], None] = lambda seen: None) -> None:
        self.now = T0
        self.chance = random.Random(seed)
        self.observe = observe
        self.loss = self.repeats = 0.0  # of messages at QoS 0
        self.jitter_ms = 0
        self.peers: list[Peer] = []
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, ms: int, call: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + ms, self._count, call))

    def run(self, ms: int) -> None:
        """Let time pass; every 100 ms each machine gets its tick."""
        end = self.now + ms
        while self.now < end:
            until = min(end, self.now - self.now % 100 + 100)
            while self._events and self._events[0][0] <= until:
                at, _, call = heapq.heappop(self._events)
                self.now = max(self.now, at)
                call()
            self.now = until
            for peer in self.peers:
                peer.tick()


class _Session:
    def __init__(self, peer: "Peer", number: int, will: Publish | None) -> None:
        self.peer, self.number, self.will = peer, number, will
        self.filters: list[tuple[str, int]] = []


class Server:
    """As much of an MQTT server as Sparkplug needs; ``aware`` keeps certificates and stamps deaths."""

    def __init__(self, net: Net, name: str, *, aware: bool = False) -> None:
        self.net, self.name, self.aware = net, name, aware
        self.retained: dict[str, Publish] = {}
        self._sessions: dict[str, _Session] = {}

    def attach(self, peer: "Peer", number: int, will: Publish | None) -> None:
        before = self._sessions.get(peer.name)
        if before is not None:
            self.detach(peer.name, before.number, with_will=True)  # taken over
        self._sessions[peer.name] = _Session(peer, number, will)

    def subscribe(self, client: str, number: int, filters: Iterable[tuple[str, int]]) -> None:
        session = self._sessions.get(client)
        if session is None or session.number != number:
            return
        for name, qos in filters:
            session.filters.append((name, qos))
            for message in self.retained.values():
                if matches(name, message.topic):
                    session.peer.send(Publish(message.topic, message.payload, min(qos, message.qos), True))

    def publish(self, message: Publish) -> None:
        if not may_publish(message.topic):
            return
        copy = certificate(message.topic, message.payload) if self.aware else None
        if copy is not None:
            self._pass(Publish(copy, message.payload, 1, True))
        self._pass(message)

    def _pass(self, message: Publish) -> None:
        if message.retain:
            self.retained[message.topic] = message
        for session in list(self._sessions.values()):
            qos = max((qos for name, qos in session.filters if matches(name, message.topic)), default=-1)
            if qos >= 0:
                session.peer.send(Publish(message.topic, message.payload, min(qos, message.qos), False))

    def detach(self, client: str, number: int, *, with_will: bool) -> None:
        session = self._sessions.get(client)
        if session is None or session.number != number:
            return
        del self._sessions[client]
        will = session.will
        if will is not None and with_will:
            payload = stamp_death(will.topic, will.payload, self.net.now) if self.aware else will.payload
            self._pass(Publish(will.topic, payload, will.qos, will.retain))


class Machine(Protocol):
    """What EdgeNode and Host have in common."""

    def connect(self, now: int) -> Connect: ...
    def connected(self, now: int) -> list[Action]: ...
    def disconnected(self, now: int) -> list[Action] | None: ...
    def message(self, topic: str, payload: bytes, now: int, *, retained: bool = False) -> list[Action]: ...
    def tick(self, now: int) -> list[Action]: ...
    def leave(self, now: int) -> list[Action]: ...


class Peer:
    """Drives one machine over one connection at a time."""

    def __init__(self, net: Net, name: str, machine: Machine, servers: list[Server], *, version: int = 5) -> None:
        self.net, self.name, self.machine, self.servers, self.version = net, name, machine, servers, version
        self.server: Server | None = None
        self.told: list[Action] = []
        self.sent: list[tuple[int, Publish]] = []
        self._session = 0  # what is under way belongs to one
        net.peers.append(self)

    def connect(self) -> None:
        wanted = self.machine.connect(self.net.now)
        server = self.server = self.servers[wanted.server]
        self._session += 1
        server.attach(self, self._session, wanted.will)
        self.net.observe(Connected(self.name, self.net.now, self.version, True, wanted.will, 0, server.name))
        self.do(self.machine.connected(self.net.now))

    def do(self, actions: Iterable[Action] | None) -> None:
        for action in actions or ():
            server, session = self.server, self._session
            if isinstance(action, Publish):
                if server is not None:
                    self.sent.append((self.net.now, action))
                    self.net.observe(Published(self.name, self.net.now, action, server.name))
                    self.net.after(LATENCY_MS, partial(server.publish, action))
            elif isinstance(action, Subscribe):
                assert server is not None
                self.net.observe(Subscribed(self.name, self.net.now, action.filters, server.name))
                self.net.after(LATENCY_MS, partial(server.subscribe, self.name, session, action.filters))
            elif isinstance(action, Disconnect):
                self.close(4 if action.with_will and self.version == 5 else 0)
            else:
                self.told.append(action)
                if isinstance(action, Offline):
                    self.net.observe(Marked(self.name, self.net.now, action.id, action.device, action.at, True))

    def send(self, message: Publish) -> None:
        """The server sends a message to this client."""
        net, session = self.net, self._session
        times = 1
        if message.qos == 0 and not message.retain:
            times = 0 if net.chance.random() < net.loss else 2 if net.chance.random() < net.repeats else 1

        def arrive() -> None:
            if session == self._session and self.server is not None:
                net.observe(Delivered(self.name, net.now, message, self.server.name))
                self.do(self.machine.message(message.topic, message.payload, net.now, retained=message.retain))

        for _ in range(times):
            net.after(LATENCY_MS + (net.chance.randrange(net.jitter_ms) if net.jitter_ms else 0), arrive)

    def tick(self) -> None:
        self.do(self.machine.tick(self.net.now))

    def close(self, reason: int | None, *, unseen_ms: int = LATENCY_MS) -> None:
        """The connection ends: by DISCONNECT with that reason, or (None) without; the server sees it later."""
        server = self.server
        if server is None:
            return
        self.net.observe(Disconnected(self.name, self.net.now, reason, server.name))
        self.server = None
        gone = partial(server.detach, self.name, self._session, with_will=reason in (None, 4))
        self.net.after(unseen_ms, gone)
        self._session += 1
        self.do(self.machine.disconnected(self.net.now))

    def cut(self, unseen_ms: int = LATENCY_MS) -> None:
        self.close(None, unseen_ms=unseen_ms)


class Watcher:
    """A machine that subscribes and listens."""

    def __init__(self, filters: tuple[tuple[str, int], ...]) -> None:
        self.filters = filters
        self.got: list[Publish] = []

    def connect(self, now: int) -> Connect:
        return Connect(Publish("watcher/gone", b"", 0, False))

    def connected(self, now: int) -> list[Action]:
        return [Subscribe(self.filters)]

    def disconnected(self, now: int) -> list[Action] | None:
        return None

    def message(self, topic: str, payload: bytes, now: int, *, retained: bool = False) -> list[Action]:
        self.got.append(Publish(topic, payload, 0, retained))
        return []

    def tick(self, now: int) -> list[Action]:
        return []

    def leave(self, now: int) -> list[Action]:
        return [Disconnect()]

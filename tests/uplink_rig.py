"""Uplinks in memory: a gateway with one, the broker at its other end played by the test, and two gateways joined."""

from typing import TypeVar, final

from gateway.core.uplink import Event, Login, Rule, Uplink
from gateway.mqtt.decode import Decoder
from gateway.mqtt.encode import encode, make_publish
from gateway.mqtt.packets import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    Ack,
    Connack,
    Connect,
    Packet,
    Properties,
    Publish,
    Suback,
    Subscribe,
)
from tests.core_rig import broker
from tests.memory import MemoryBroker, MemoryLink

P = TypeVar("P", bound=Packet)


@final
class Peer:
    """The broker at the other end of a dialled connection."""

    def __init__(self, link: MemoryLink) -> None:
        self.link = link
        self.decoder = Decoder(0)
        self.waiting: list[Packet] = []

    def packets(self) -> list[Packet]:
        """All that has come and was not expected yet."""
        if self.link.inbox:
            self.decoder.feed(bytes(self.link.inbox))
            self.link.inbox.clear()
        while (p := self.decoder.next()) is not None:
            self.waiting.append(p)
        found, self.waiting = self.waiting, []
        return found

    def expect(self, kind: type[P]) -> P:
        """The next packet is of this kind."""
        found = self.packets()
        assert found, f"no {kind.__name__} came"
        self.waiting = found[1:]
        assert isinstance(found[0], kind), found[0]
        return found[0]

    def publishes(self) -> list[Publish]:
        """All that comes is PUBLISHes."""
        found = self.packets()
        assert all(isinstance(p, Publish) for p in found), found
        return [p for p in found if isinstance(p, Publish)]

    def nothing(self) -> None:
        assert self.packets() == []
        assert not self.link.closed

    def send(self, packet: Packet) -> None:
        self.link.send(encode(packet, self.decoder.version))

    def accept(self, present: bool = False, **values: int) -> Connect:
        """Take the CONNECT and answer it; ``values`` are properties of the CONNACK."""
        connect = self.expect(Connect)
        properties = Properties()
        for name, value in values.items():
            assert getattr(properties, name) == -1
            setattr(properties, name, value)
        self.send(Connack(present, 0, properties if connect.version == 5 else None))
        return connect

    def grant(self, *reasons: int) -> Subscribe:
        subscribe = self.expect(Subscribe)
        self.send(Suback(subscribe.packet_id, list(reasons) or [f.qos for f in subscribe.filters]))
        return subscribe

    def puback(self, packet_id: int, reason: int = 0) -> None:
        self.send(Ack(PUBACK, packet_id, reason))

    def take(self) -> Publish:
        """The next PUBLISH, acknowledged to the end of its handshake."""
        p = self.expect(Publish)
        if p.qos == 1:
            self.puback(p.packet_id)
        elif p.qos == 2:
            self.send(Ack(PUBREC, p.packet_id))
            assert self.expect(Ack).type == PUBREL
            self.send(Ack(PUBCOMP, p.packet_id))
        return p

    def publish(self, topic: str, payload: bytes, qos: int = 0, packet_id: int = 0, **options: object) -> None:
        p = make_publish(topic, payload, qos, packet_id=packet_id, version=self.decoder.version, **options)  # type: ignore[arg-type]
        self.link.send(p.frame)


def login(name: str = "up", version: int = 5, remote: str = "there:1883", keep_alive_s: int = 0) -> Login:
    made = Login(name, remote, f"gateway-{name}")
    made.version = version
    made.keep_alive_s = keep_alive_s
    return made


def uplink(*rules: Rule, name: str = "up") -> Uplink:
    return Uplink(name, list(rules))


def gateway(*uplinks: Uplink, origin: str = "g1", hops_max: int = 8, **limits: object) -> MemoryBroker:
    """A broker in memory with these uplinks, none of them connected."""
    b = broker(**limits)
    configure(b, *uplinks, origin=origin, hops_max=hops_max)
    return b


def configure(b: MemoryBroker, *uplinks: Uplink, origin: str = "g1", hops_max: int = 8) -> None:
    b.router.uplinks.configure(list(uplinks), origin, hops_max, b.now)
    b.pump()


def dial(b: MemoryBroker, name: str = "up", version: int = 5, remote: str = "there:1883") -> Peer:
    return Peer(b.dial(login(name, version, remote)))


def events(b: MemoryBroker) -> list[Event]:
    return b.router.uplinks.take_events()


def kinds(b: MemoryBroker) -> list[str]:
    return [event.kind for event in events(b)]


@final
class Joined:
    """An uplink of one gateway in memory that ends at another; nothing moves between them but by ``carry``."""

    def __init__(self, here: MemoryBroker, there: MemoryBroker, made: Login) -> None:
        self.near = here.dial(made)
        self.far = there.open()

    def carry(self) -> bool:
        """What each has said reaches the other; True when something did."""
        moved = False
        for one, other in ((self.near, self.far), (self.far, self.near)):
            data = bytes(one.inbox)
            one.inbox.clear()
            if data and not other.closed:
                other.send(data)
                moved = True
            if one.closed and not other.closed:
                other.close()
                moved = True
        return moved

    def cut(self) -> None:
        self.near.close()
        self.far.close()


def settle(*joined: Joined) -> int:
    """Until nothing moves; returns the rounds that took."""
    rounds = 0
    while True:
        moved = [one.carry() for one in joined]
        if True not in moved:
            return rounds
        rounds += 1
        assert rounds < 1000, "it never ends"

"""Traffic whose acknowledgements can be judged from the shim's log, and what must be left of it after a cut."""

from pathlib import Path

from tests import wire_format as mqtt
from tests.crash.shimlog import Record
from tests.harness import Broker
from tests.settled import until_settled
from tests.wire import Wire

BATCH = 8
PUBLISHERS = {"p1": 1, "p2": 2}  # client id and QoS
EXPIRY = [(mqtt.SESSION_EXPIRY, 3600)]


def marker(name: str, pid: int) -> bytes:
    return b"<%s-%d>" % (name.encode(), pid)


def payload(name: str, pid: int) -> bytes:
    """Three times the marker: one of them lies in one piece, wherever a page of the database ends."""
    return (marker(name, pid) + b"." * 40) * 3


def join(port: int, name: str, present: int | None = None) -> Wire:
    """A persistent session on MQTT 5."""
    return Wire.connect(port, name, 5, clean=False, props=EXPIRY, present=present)


class Traffic:
    """Two publishers (QoS 1, QoS 2), a subscriber that is away and one that takes part; every session persistent."""

    def __init__(self, broker: Broker) -> None:
        self.ports: dict[str, int] = {}
        self.delivered: list[tuple[int, bytes]] = []  # to "online", in order: packet id, payload
        with join(broker.port, "away") as away:
            away.subscribe("t/#", qos=2)
        self.online = self._join(broker.port, "online")
        self.online.subscribe("t/#", qos=2)
        self.publishers = {name: self._join(broker.port, name) for name in PUBLISHERS}

    def _join(self, port: int, name: str) -> Wire:
        wire = join(port, name)
        self.ports[name] = wire.sock.getsockname()[1]
        wire.pid = 1
        return wire

    def run(self, batches: int) -> None:
        """Publish in batches; each is acknowledged and delivered before the next."""
        for _ in range(batches):
            sent = []
            for name, wire in self.publishers.items():
                for _ in range(BATCH):
                    pid = wire.publish(f"t/{name}", payload(name, wire.pid), PUBLISHERS[name])
                    sent.append((name, pid))
            for packet in [self.online.wait_for(mqtt.PUBLISH) for _ in sent]:
                self.delivered.append((packet["pid"], packet["payload"]))
                self.online.ack(mqtt.PUBACK if packet["qos"] == 1 else mqtt.PUBREC, packet["pid"])
            for name, pid in sent:
                wire = self.publishers[name]
                wire.wait_for(mqtt.PUBACK if name == "p1" else mqtt.PUBREC, pid=pid)
                if name == "p2":
                    wire.pubrel(pid)
            for name, pid in sent:
                if name == "p2":
                    self.publishers[name].wait_for(mqtt.PUBCOMP, pid=pid)
                    self.online.pubcomp(self.online.wait_for(mqtt.PUBREL)["pid"])

    def close(self) -> None:
        for wire in (self.online, *self.publishers.values()):
            wire.close()

    def marker(self, port: int, pid: int) -> bytes:
        """What the write for that publish must hold."""
        return next((marker(name, pid) for name, own in self.ports.items() if own == port), b"")


def said(records: list[Record], kind: str, packet: int, port: int) -> list[int]:
    return [one.pid for one in records if one.kind == kind and one.number == packet and one.port == port]


def verify(traffic: Traffic, before: list[Record], data_dir: Path) -> None:
    """A broker on ``data_dir``, as a cut behind the records ``before`` left it, must still keep every promise."""
    ports = traffic.ports
    kept = {payload("p1", pid) for pid in said(before, "A", mqtt.PUBACK, ports["p1"])}
    with Broker(data_dir) as broker:
        asked = said(before, "I", mqtt.PUBLISH, ports["p2"])
        answered = set(said(before, "A", mqtt.PUBREC, ports["p2"]))
        complete = set(said(before, "A", mqtt.PUBCOMP, ports["p2"]))
        with join(broker.port, "p2", 1) as wire:
            # as a client goes on: what has no PUBREC again with DUP, the rest from PUBREL on
            for pid in asked:
                if pid not in answered:
                    wire.publish("t/p2", payload("p2", pid), 2, dup=True, pid=pid)
                    wire.expect(mqtt.PUBREC, pid=pid)
                if pid not in complete:
                    wire.pubrel(pid)
                    wire.expect(mqtt.PUBCOMP, pid=pid)
        twice_never = {payload("p2", pid) for pid in asked}
        kept |= twice_never
        seen = deliveries(broker, "away")
        assert not (lost := kept - set(seen)), f"lost for the absent session: {sorted(lost)[:5]} of {len(kept)}"
        for name, pids in (("p1", said(before, "I", mqtt.PUBLISH, ports["p1"])), ("p2", asked)):
            mine = [one for one in seen if one.startswith(b"<" + name.encode())]
            assert mine == [payload(name, pid) for pid in pids if payload(name, pid) in mine], f"{name} out of order"
        had = traffic.delivered[: len(said(before, "A", mqtt.PUBLISH, ports["online"]))]
        released = set(said(before, "A", mqtt.PUBREL, ports["online"]))
        again = deliveries(broker, "online")
        assert not (lost := kept - {one for _, one in had} - set(again)), f"lost for the other: {sorted(lost)[:5]}"
        done = {one for pid, one in had if pid in released and one.startswith(b"<p2")}
        assert not done & set(again), f"QoS 2 again after its PUBREL: {sorted(done & set(again))[:5]}"


def deliveries(broker: Broker, name: str) -> list[bytes]:
    """Everything that the session still gets, settled."""
    found = []
    with join(broker.port, name, 1) as wire:
        for packet in until_settled(broker, wire, name):
            if packet.type == mqtt.PUBLISH:
                found.append(packet["payload"])
                wire.ack(mqtt.PUBACK if packet["qos"] == 1 else mqtt.PUBREC, packet["pid"])
            elif packet.type == mqtt.PUBREL:
                wire.pubcomp(packet["pid"])
    return found

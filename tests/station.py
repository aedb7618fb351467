"""A client of the broker in memory for tests that count milliseconds: looking what has come lets no time pass."""

from typing import final

from tests import wire_format as mqtt
from tests.memory import MemoryBroker, MemoryLink
from tests.wire_format import Packet, Props

EXPIRY_S = 3600


@final
class Station:
    """One connection; ``persistent`` gives it a session that outlives it. ``connack`` is None while it is held back."""

    def __init__(
        self, broker: MemoryBroker, client_id: str, version: int = 5, *, persistent: bool = True, clean: bool = False,
        props: Props = (), keep_alive: int = 0,
    ) -> None:  # fmt: skip
        self.broker, self.client_id, self.version = broker, client_id, version
        self.data = bytearray()
        self.next_pid = 1
        self.link: MemoryLink = broker.open()
        asked = [(mqtt.SESSION_EXPIRY, EXPIRY_S)] if persistent and version == 5 else []
        first = clean if version == 5 else clean or not persistent
        self.link.send(mqtt.connect(client_id, version, first, keep_alive, None, [*asked, *props]))
        came = self.come()
        self.connack: Packet | None = came[0] if came else None
        self.early = came[1:]  # what came right behind it

    def come(self) -> list[Packet]:
        """Every packet that has come since the last look."""
        self.data += self.link.inbox
        self.link.inbox.clear()
        found = []
        while size := mqtt.frame_size(self.data):
            if len(self.data) < size:
                break
            found.append(mqtt.parse(bytes(self.data[:size]), self.version))
            del self.data[:size]
        return found

    def pids(self, kind: int) -> list[int]:
        """The packet ids of those of this kind that have come; others are passed over."""
        return [packet["pid"] for packet in self.come() if packet.type == kind]

    def subscribe(self, *filters: str, qos: int = 1) -> list[int]:
        """Subscribe; the codes of the SUBACK, which must come at once."""
        self.link.send(mqtt.subscribe([(name, qos) for name in filters], self.pid(), self.version))
        codes: list[int] = next(packet for packet in self.come() if packet.type == mqtt.SUBACK)["codes"]
        return codes

    def pid(self) -> int:
        used = self.next_pid
        self.next_pid = used % 65_535 + 1
        return used

    def publish(self, topic: str, payload: bytes = b"", qos: int = 1, retain: bool = False, props: Props = ()) -> int:
        """Send and wait for nothing; the packet id."""
        used = self.pid() if qos else 0
        self.link.send(mqtt.publish(topic, payload, qos, retain, False, used, self.version, props))
        return used

    def puback(self, *pids: int, code: int | None = None) -> None:
        self.link.send(b"".join(mqtt.ack(mqtt.PUBACK, pid, self.version, code) for pid in pids))

    def take(self) -> list[bytes]:
        """Acknowledge every QoS 1 PUBLISH that has come; their payloads."""
        came = [*self.early, *self.come()]
        self.early = []
        got = [packet for packet in came if packet.type == mqtt.PUBLISH]
        if pids := [packet["pid"] for packet in got if packet["qos"] == 1]:
            self.puback(*pids)
        return [packet["payload"] for packet in got]

    def drop(self) -> None:
        self.link.close()

    def disconnect(self, expiry: int | None = None) -> None:
        props = None if expiry is None else [(mqtt.SESSION_EXPIRY, expiry)]
        self.link.send(mqtt.disconnect(self.version, None if props is None else 0, props))

"""Requirements on the server: delivery, wills, retained messages, and the certificates of an aware one."""

from collections import OrderedDict
from typing import Final, final

from sparkplug.actions import Publish
from sparkplug.aware import certificate, original
from sparkplug.check.content import read
from sparkplug.check.edge import bd_seq
from sparkplug.check.verdicts import Verdicts
from sparkplug.topic import MessageType

_RECENT_MAX: Final = 10_000
_NOW_MS: Final = 60_000
_AWARE: Final = "conformance-mqtt-aware"
_PLAIN: Final = tuple(f"conformance-mqtt-{what}" for what in ("qos0", "qos1", "will-messages", "retained"))


@final
class BrokerWatch:
    """One server, judged by what goes in and what comes out."""

    def __init__(self, verdicts: Verdicts) -> None:
        self._verdicts = verdicts
        self._recent: OrderedDict[tuple[str, bytes], int] = OrderedDict()  # what was published, and at which QoS
        self._retained: dict[str, bytes] = {}
        self._births: dict[str, bytes] = {}
        self._wills: list[Publish] = []

    def on_published(self, message: Publish) -> None:
        self._recent[message.topic, message.payload] = message.qos
        self._recent.move_to_end((message.topic, message.payload))
        if len(self._recent) > _RECENT_MAX:
            self._recent.popitem(last=False)
        self._keep(message)
        if certificate(message.topic, message.payload) is not None:
            self._births[message.topic] = message.payload

    def on_will(self, will: Publish) -> None:
        """A client is gone in a way that has its will published."""
        self._wills.append(will)
        self._keep(will)

    def _keep(self, message: Publish) -> None:
        if message.retain:
            self._retained[message.topic] = message.payload

    def on_delivered(self, message: Publish, at: int) -> None:
        verdicts = self._verdicts
        birth = original(message.topic)
        if birth is not None:
            self._on_certificate(birth, message)
            return
        qos = self._recent.get((message.topic, message.payload))
        if qos is not None:
            if message.qos == 0:
                verdicts.met("conformance-mqtt-qos0")
            elif message.qos == 1 and qos >= 1:
                verdicts.met("conformance-mqtt-qos1")
            elif message.qos > qos:
                verdicts.unmet(f"{message.topic}: QoS {message.qos}, published at {qos}", "conformance-mqtt-qos1")
        elif not self._on_will_delivered(message, at) and message.topic not in self._retained:
            return  # of before the watching began
        if message.retain:
            kept = self._retained.get(message.topic) == message.payload
            verdicts.expect(kept, f"{message.topic}: not the retained message", "conformance-mqtt-retained")

    def _on_will_delivered(self, message: Publish, at: int) -> bool:
        for will in self._wills:
            if will.topic != message.topic:
                continue
            if will.payload != message.payload:
                if not self._restamped(will, message, at):
                    continue
            self._verdicts.met("conformance-mqtt-will-messages")
            return True
        return False

    def _restamped(self, will: Publish, message: Publish, at: int) -> bool:
        """The same NDEATH with another time, which is allowed if it is that of now."""
        if f"/{MessageType.NDEATH}/" not in will.topic:
            return False
        before, after = read(will.payload), read(message.payload)
        if before is None or after is None or bd_seq(before) != bd_seq(after):
            return False
        now = abs(after.timestamp - at) <= _NOW_MS
        why = f"{message.topic}: time {after.timestamp} at {at}"
        self._verdicts.expect(now, why, f"{_AWARE}-ndeath-timestamp")
        return True

    def _on_certificate(self, birth: str, message: Publish) -> None:
        latest = self._births.get(birth)
        if latest is None:
            return
        verdicts, kind = self._verdicts, birth.split("/")[2].lower()
        good = message.payload == latest
        verdicts.expect(
            good, f"{message.topic}: not the latest birth", f"{_AWARE}-store", f"{_AWARE}-{kind}-mqtt-topic"
        )
        if message.retain:
            verdicts.met(f"{_AWARE}-{kind}-mqtt-retain")

    def conclude(self) -> None:
        """An aware server is one that does all that any other does."""
        if all(self._verdicts.exercised(id) for id in _PLAIN):
            good = not self._verdicts.failed(_PLAIN)
            self._verdicts.expect(good, "it does not conform", f"{_AWARE}-basic")

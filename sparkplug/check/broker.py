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
class _Kept:
    """What a topic should hold, and what it held until a moment ago: a delivery may have been on its way."""

    __slots__ = ("_at", "_before", "_now")

    def __init__(self) -> None:
        self._now: bytes | None = None
        self._before: list[bytes] = []
        self._at = 0  # when it was set

    def set(self, payload: bytes, at: int, grace_ms: int) -> None:
        if at > self._at + grace_ms:
            self._before.clear()
        if self._now is not None:
            self._before = [*self._before[-8:], self._now]
        self._now, self._at = payload, at

    def holds(self, payload: bytes, at: int, grace_ms: int) -> bool:
        return payload == self._now or (at <= self._at + grace_ms and payload in self._before)


@final
class BrokerWatch:
    """One server, judged by what goes in and what comes out."""

    def __init__(self, verdicts: Verdicts, grace_ms: int) -> None:
        self._verdicts = verdicts
        self._grace_ms = grace_ms
        self._recent: OrderedDict[tuple[str, bytes], int] = OrderedDict()  # what was published, and at which QoS
        self._retained: dict[str, _Kept] = {}
        self._births: dict[str, _Kept] = {}
        self._wills: list[Publish] = []

    def on_published(self, message: Publish, at: int) -> None:
        self._recent[message.topic, message.payload] = message.qos
        self._recent.move_to_end((message.topic, message.payload))
        if len(self._recent) > _RECENT_MAX:
            self._recent.popitem(last=False)
        self._keep(message, at)
        if certificate(message.topic, message.payload) is not None:
            self._births.setdefault(message.topic, _Kept()).set(message.payload, at, self._grace_ms)

    def on_will(self, will: Publish, at: int) -> None:
        """A client is gone in a way that has its will published."""
        self._wills.append(will)
        self._keep(will, at)

    def _keep(self, message: Publish, at: int) -> None:
        if message.retain:
            self._retained.setdefault(message.topic, _Kept()).set(message.payload, at, self._grace_ms)

    def on_delivered(self, message: Publish, at: int) -> None:
        verdicts = self._verdicts
        birth = original(message.topic)
        if birth is not None:
            self._on_certificate(birth, message, at)
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
            kept = self._retained.get(message.topic)
            good = kept is not None and kept.holds(message.payload, at, self._grace_ms)
            verdicts.expect(good, f"{message.topic}: not the retained message", "conformance-mqtt-retained")

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

    def _on_certificate(self, birth: str, message: Publish, at: int) -> None:
        latest = self._births.get(birth)
        if latest is None:
            return
        verdicts, kind = self._verdicts, birth.split("/")[2].lower()
        good = latest.holds(message.payload, at, self._grace_ms)
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

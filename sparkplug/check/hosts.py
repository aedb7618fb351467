"""Requirements on one connection of a host application: STATE, subscriptions, order, deaths, commands."""

from typing import Any, Final, final

from sparkplug import state
from sparkplug.actions import Publish
from sparkplug.check.content import Content, check_sent, read
from sparkplug.check.matching import matches
from sparkplug.check.observed import Connected, Disconnected, Marked, Published, Subscribed
from sparkplug.check.topics import check_outside
from sparkplug.check.verdicts import Verdicts
from sparkplug.sequence import SEQ_COUNT
from sparkplug.source import REBIRTH
from sparkplug.topic import MessageType, NodeId, StateTopic, Topic

_NOW_MS: Final = 60_000  # how far a time of now may be from the time at which it is seen
_TOPIC: Final = "host-topic-phid"
_FLOW: Final = "message-flow-phid-sparkplug"
_APP: Final = "operational-behavior-host-application"
_ACTION: Final = "operational-behavior-edge-node-termination-host-action"
_REORDER: Final = "operational-behavior-host-reordering"
_SERVERS: Final = "operational-behavior-primary-application-state-with-multiple-servers"
_LEAVING: Final = f"{_TOPIC}-death-payload-timestamp-disconnect"
_ROLE_IDS: Final = ("intro-sparkplug-host-state", "components-ph-state", "conformance-primary-host")
MQTT5: Final = 5


@final
class _Order:
    """What was delivered of one node's messages."""

    __slots__ = ("asked", "missing", "next")

    def __init__(self, seq: int) -> None:
        self.next = (seq + 1) % SEQ_COUNT
        self.missing: set[int] = set()
        self.asked = False


@final
class HostWatch:
    """A host application on one server."""

    def __init__(self, verdicts: Verdicts, topic: StateTopic | None, server: str) -> None:
        self.topic = topic
        self.server = server
        self.connected = False
        self._verdicts = verdicts
        self._will_at: int | None = None  # the time that the will has
        self._filters: list[tuple[str, int]] = []
        self._published = False
        self._death_at: int | None = None  # when an offline STATE was published
        self._death_good = False
        self._contradict_at: int | None = None
        self._orders: dict[NodeId, _Order] = {}
        self._dead: dict[NodeId, int] = {}  # NDEATHs delivered, and when
        self._dead_devices: dict[tuple[NodeId, str], set[int]] = {}  # DDEATHs delivered: the times that they have

    # The session

    def on_connected(self, seen: Connected) -> None:
        verdicts, will = self._verdicts, seen.will
        self.connected, self._published, self._death_at, self._contradict_at = True, False, None, None
        self._filters.clear()
        self._orders.clear()
        version = "50" if seen.version >= MQTT5 else "311"
        clean = seen.clean and (version == "311" or seen.expiry_s == 0)
        verdicts.expect(clean, f"{self.name}: a session that stays", f"{_FLOW}-clean-session-{version}")
        there = will is not None and self.topic is not None
        required = (f"{_TOPIC}-death-required", f"{_APP}-connect-will")
        verdicts.expect(there, f"{self.name}: no STATE as will", *required)
        if will is None or self.topic is None:
            return
        own = will.topic == str(self.topic) and not self.topic.legacy
        verdicts.expect(
            own, f"{self.name}: will on {will.topic}", f"{_APP}-connect-will-topic", "payloads-state-will-message"
        )
        verdicts.expect(
            will.qos == 1,
            f"{self.name}: will at QoS {will.qos}",
            f"{_APP}-connect-will-qos",
            "payloads-state-will-message-qos",
        )
        verdicts.expect(
            will.retain,
            f"{self.name}: will not retained",
            f"{_APP}-connect-will-retained",
            "payloads-state-will-message-retain",
        )
        said = self._check_death(will)
        good = said is not None and not said.online
        verdicts.expect(good, f"{self.name}: will {will.payload!r}", f"{_APP}-connect-will-payload")
        self._will_at = None if said is None else said.timestamp
        now = self._will_at is not None and abs(self._will_at - seen.at) <= _NOW_MS
        verdicts.expect(
            good and now,
            f"{self.name}: the will's time is {self._will_at}, at {seen.at}",
            f"{_TOPIC}-death-payload-timestamp-connect",
            "payloads-state-will-message-payload",
        )

    @property
    def name(self) -> str:
        return "host" if self.topic is None else f"host {self.topic.host}"

    def on_subscribed(self, seen: Subscribed) -> None:
        self._filters += seen.filters

    def on_disconnected(self, seen: Disconnected) -> None:
        verdicts = self._verdicts
        self.connected = False
        for kept in (self._orders, self._dead, self._dead_devices):
            kept.clear()
        if self._death_at is not None:
            way = "clean" if seen.reason is not None else "with-no-disconnect-packet"
            verdicts.expect(self._death_good, f"{self.name}: left with an old time", f"{_LEAVING}-{way}")
            verdicts.met(f"{_APP}-termination")
        elif seen.reason is not None and self._published:
            verdicts.unmet(f"{self.name}: left without offline", f"{_LEAVING}-clean", f"{_APP}-termination")
        if seen.reason is not None:
            verdicts.met(f"{_APP}-disconnect-intentional")

    # What it says

    def on_state(self, topic: StateTopic, seen: Published, servers: int) -> None:
        """It published a STATE; ``servers``: how many the same host is on."""
        verdicts, message = self._verdicts, seen.message
        if self.topic is None:
            self.topic = topic
        try:
            said = state.decode(message.payload, legacy=topic.legacy)
        except state.StateError:
            said = None
        online = b"true" in message.payload if said is None else said.online
        verdicts.met(*_ROLE_IDS)
        self._check_first(online)
        self._contradicted(said, seen.at)
        if not online:
            self._check_death(message)
            self._death_at = seen.at
            stamped = None if said is None else said.timestamp
            self._death_good = stamped is not None and abs(stamped - seen.at) <= _NOW_MS
            return
        self._death_at = None
        own = topic == self.topic and not topic.legacy
        verdicts.expect(own, f"{self.name}: {topic}", f"{_TOPIC}-birth-topic", f"{_APP}-connect-birth-topic")
        qos = f"{self.name}: online at QoS {message.qos}"
        verdicts.expect(message.qos == 1, qos, f"{_TOPIC}-birth-qos", f"{_APP}-connect-birth-qos")
        retained = f"{self.name}: online not retained"
        verdicts.expect(message.retain, retained, f"{_TOPIC}-birth-retain", f"{_APP}-connect-birth-retained")
        well = said is not None and said.timestamp is not None
        verdicts.expect(well, f"{self.name}: {message.payload!r}", f"{_TOPIC}-birth-payload")
        ids = [f"{_FLOW}-state-publish-payload", f"{_APP}-connect-birth-payload", "payloads-state-birth-payload"]
        ids += [f"{_FLOW}-state-publish-payload-timestamp", f"{_TOPIC}-birth-payload-timestamp"]
        if servers > 1:
            ids.append(f"{_APP}-multi-server-timestamp")
            verdicts.met(f"{_SERVERS}-state-subs")
        if self.connected:
            same = said is not None and said.timestamp == self._will_at
            verdicts.expect(same, f"{self.name}: {message.payload!r}, in the will {self._will_at}", *ids)

    def _check_first(self, online: bool) -> None:
        if self._published or not self.connected:
            return
        verdicts = self._verdicts
        self._published = True
        verdicts.expect(
            online,
            f"{self.name}: the first message is not online",
            "principles-birth-certificates-order",
            f"{_TOPIC}-birth-message",
            f"{_TOPIC}-birth-required",
            f"{_FLOW}-state-publish",
            f"{_APP}-connect-birth",
            "payloads-state-birth",
            f"{_SERVERS}-state",
        )
        own = any(matches(name, str(self.topic)) for name, _ in self._filters)
        verdicts.expect(own, f"{self.name}: its STATE is not subscribed to", "payloads-state-subscribe")
        data = any("DATA" in name or name.endswith("#") for name, _ in self._filters if name.startswith("spBv1.0/"))
        why = f"{self.name}: online before the subscriptions"
        verdicts.expect(own and data, why, f"{_TOPIC}-birth-sub-required", f"{_FLOW}-subscription")

    def _contradicted(self, said: state.State | None, at: int) -> None:
        """It read that it is offline: the next that it says must be the opposite."""
        if self._contradict_at is None:
            return
        self._contradict_at = None
        good = said is not None and said.online and said.timestamp == self._will_at
        why = f"{self.name}: not online again after it read that it is offline"
        self._verdicts.expect(good, why, "message-flow-hid-sparkplug-state-message-delivered")

    def _check_death(self, message: Publish) -> state.State | None:
        verdicts = self._verdicts
        death, app = f"{_TOPIC}-death", f"{_APP}-death"
        own = self.topic is not None and message.topic == str(self.topic) and not self.topic.legacy
        verdicts.expect(own, f"{self.name}: offline on {message.topic}", f"{death}-topic", f"{app}-topic")
        verdicts.expect(message.qos == 1, f"{self.name}: offline at QoS {message.qos}", f"{death}-qos", f"{app}-qos")
        verdicts.expect(message.retain, f"{self.name}: offline not retained", f"{death}-retain", f"{app}-retained")
        try:
            said = state.decode(message.payload, legacy=self.topic is not None and self.topic.legacy)
        except state.StateError:
            said = None
        good = said is not None and said.timestamp is not None
        verdicts.expect(good, f"{self.name}: {message.payload!r}", f"{death}-payload", f"{app}-payload")
        return said

    def on_command(self, topic: Topic, seen: Published, content: Content) -> None:
        """It published a command; ``content`` is what the node's births say."""
        verdicts, where = self._verdicts, f"{topic.type} for {topic.id}"
        check_outside(verdicts, topic.type, seen.message)
        self._check_first(False)
        message = read(seen.message.payload)
        if message is None:
            verdicts.unmet(f"{where} is no payload", f"topics-{topic.type.lower()}-payload")
            return
        check_sent(verdicts, topic.type, where, message, seen.at)
        bare = not message.HasField("seq")
        verdicts.expect(bare, f"{where} has a seq", f"payloads-{topic.type.lower()}-seq")
        content.command(topic.device, where, message, seen.at)
        order = self._orders.get(topic.id)
        asks = any(metric.name == REBIRTH and metric.boolean_value for metric in message.metrics)
        if asks and order is not None and order.missing:
            order.asked = True
            verdicts.met(f"{_REORDER}-start", f"{_REORDER}-rebirth")

    # What it reads

    def on_own_state(self, payload: bytes, at: int) -> None:
        """Its own STATE was delivered to it."""
        try:
            said = state.decode(payload)
        except state.StateError:
            return
        if said is not None and not said.online and self._death_at is None and self._published:
            self._contradict_at = at

    def on_delivered(self, topic: Topic, message: Any, at: int) -> None:
        """A message of a node was delivered to it."""
        id = topic.id
        if topic.type is MessageType.NDEATH:
            self._dead[id] = at
            self._orders.pop(id, None)
            self._forget_devices(id)
            return
        if topic.type is MessageType.NBIRTH:
            self._dead.pop(id, None)
            self._orders[id] = _Order(message.seq)
            self._forget_devices(id)
            return
        order = self._orders.get(id)
        if order is None or not message.HasField("seq") or message.seq >= SEQ_COUNT:
            return
        seq = message.seq
        ahead = (seq - order.next) % SEQ_COUNT
        if ahead >= SEQ_COUNT // 2 and seq not in order.missing:
            return  # a repetition
        if topic.device is not None and topic.type is MessageType.DDEATH:
            self._dead_devices.setdefault((id, topic.device), set()).add(message.timestamp)
        elif topic.device is not None and not order.missing:
            self._dead_devices.pop((id, topic.device), None)
        if seq in order.missing:
            order.missing.discard(seq)
            if not order.missing and not order.asked:
                self._verdicts.met(f"{_REORDER}-start", f"{_REORDER}-success")
            return
        order.missing.update((order.next + step) % SEQ_COUNT for step in range(ahead))
        order.next = (seq + 1) % SEQ_COUNT

    def _forget_devices(self, id: NodeId) -> None:
        for key in [key for key in self._dead_devices if key[0] == id]:
            del self._dead_devices[key]

    def on_marked(self, seen: Marked) -> None:
        """It took somebody for gone."""
        verdicts, where = self._verdicts, f"{self.name}: {seen.id}/{seen.device or ''}"
        died = self._dead.get(seen.id)
        times = self._dead_devices.get((seen.id, seen.device), set()) if seen.device is not None else set()
        if seen.since in times or (times and died is None):
            good = seen.since in times
            why = f"{where} offline at {seen.since}, its DDEATH says {sorted(times)}"
            verdicts.expect(good, why, f"{_ACTION}-ddeath-devices-offline")
            verdicts.expect(seen.stale, f"{where}: not stale", f"{_ACTION}-ddeath-devices-tags-stale")
            times.discard(seen.since)
            return
        if died is None:
            return
        what = "node" if seen.device is None else "devices"
        now = abs(seen.since - died) <= _NOW_MS
        verdicts.expect(now, f"{where} offline at {seen.since}, not {died}", f"{_ACTION}-ndeath-{what}-offline")
        verdicts.expect(seen.stale, f"{where}: not stale", f"{_ACTION}-ndeath-{what}-tags-stale")

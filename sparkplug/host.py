"""A host application on one server, as a machine: STATE, subscriptions, the nodes, and what it asks of them.

Whoever drives it connects as ``connect()`` says, tells it what comes and does what it returns, in that order. Time is
UTC in ms. With several servers there is one host for each: STATE has a timestamp of its own on each
[tck-id-operational-behavior-host-application-multi-server-timestamp].
"""

from collections.abc import Iterable, Mapping
from typing import Final, final

from sparkplug import state
from sparkplug.actions import Action, Connect, Disconnect, Publish, Refused, Subscribe
from sparkplug.datatypes import DataType
from sparkplug.model import Metric, Payload, PayloadError, Value
from sparkplug.payload import encode
from sparkplug.rebirth import Rebirths
from sparkplug.source import REBIRTH
from sparkplug.topic import COMMANDS, MessageType, NodeId, StateTopic, TopicError, build, build_state, check_id, parse
from sparkplug.view import NodeView

_DATA: Final = ("NBIRTH/+", "NDATA/+", "NDEATH/+", "DBIRTH/+/+", "DDATA/+/+", "DDEATH/+/+")


@final
class Host:
    """One host application.

    ``groups``: those it is for, all when empty. ``reorder_ms``: how long a message may be missing before a rebirth is
    asked for [tck-id-operational-behavior-host-reordering-param]. ``rebirth_burst`` and ``rebirth_every_ms``: the
    budget for rebirths of all nodes. ``nodes_max``: messages of more nodes than that are refused. ``legacy_state``:
    STATE as in 2.2.
    """

    def __init__(
        self,
        host_id: str,
        *,
        groups: Iterable[str] = (),
        legacy_state: bool = False,
        reorder_ms: int = 2000,
        rebirth_burst: int = 10,
        rebirth_every_ms: int = 500,
        nodes_max: int = 10_000,
    ) -> None:
        self.nodes: dict[NodeId, NodeView] = {}
        self.rebirths: Rebirths[NodeId] = Rebirths(rebirth_burst, rebirth_every_ms)
        self.connected_at: int | None = None
        self._topic = StateTopic(check_id("host id", host_id), legacy_state)
        self._state_topic = build_state(host_id, legacy=legacy_state)
        self._groups = [check_id("group id", group) for group in groups] or ["+"]
        self._reorder_ms = reorder_ms
        self._nodes_max = nodes_max
        self._armed: set[NodeId] = set()
        self._timestamp = 0
        self._lost: list[NodeId] = []  # those that were online when the connection went

    # What the connection does

    def connect(self, now: int) -> Connect:
        """The next session: its will says offline with the time of now [tck-id-payloads-state-will-message-payload]."""
        self._timestamp = max(now, self._timestamp)
        return Connect(self._state(False))

    def connected(self, now: int) -> list[Action]:
        """The server took the session: subscribe, then say online with the time of the will, then ask who is there."""
        self.connected_at = now
        filters = [(self._state_topic, 1)]
        filters += [(f"spBv1.0/{group}/{rest}", 1) for group in self._groups for rest in _DATA]
        for id in self._lost:
            self.rebirths.want(id)
        self._lost.clear()
        return [Subscribe(tuple(filters)), self._state(True)]

    def disconnected(self, now: int) -> list[Action]:
        """The connection is gone: of no node is anything known any more."""
        self.connected_at = None
        actions: list[Action] = []
        for id, view in self.nodes.items():
            if view.online:
                self._lost.append(id)
            actions += view.link_lost(now)
            view.wants_rebirth = view.asked = False
        self._armed.clear()
        self.rebirths.clear()
        return actions

    def leave(self, now: int) -> list[Action]:
        """End the session on purpose: say offline, with the time of now [tck-id-host-topic-phid-death-...-clean]."""
        if self.connected_at is None:
            return []
        self.connected_at = None
        self._timestamp = max(now, self._timestamp)
        return [self._state(False), Disconnect()]

    def message(self, topic: str, payload: bytes, now: int, *, retained: bool = False) -> list[Action]:
        """A message came. What is wrong with it comes back as Refused."""
        try:
            found = parse(topic)
            if isinstance(found, StateTopic):
                return self._on_state(found, payload)
            if found.type in COMMANDS:
                return []
            view = self.nodes.get(found.id)
            if view is None:
                if len(self.nodes) >= self._nodes_max:
                    return [Refused(topic, f"more than {self._nodes_max} nodes")]
                view = self.nodes[found.id] = NodeView(found.id, self._reorder_ms)
            if retained:
                view.wants_rebirth |= not view.online
                actions: list[Action] = [Refused(topic, "retained, so nobody knows of what time it is")]
            else:
                actions = view.receive(found, payload, now)
        except (TopicError, PayloadError, state.StateError) as error:
            return [Refused(topic, str(error))]
        self._settle(view)
        return actions

    def tick(self, now: int) -> list[Action]:
        """Time passes: reorder timers, and the requests for rebirths. Every 100 ms or so will do."""
        actions: list[Action] = []
        for id in list(self._armed):
            view = self.nodes[id]
            actions += view.tick(now)
            self._settle(view)
        if self.connected_at is None:
            return actions
        for id in self.rebirths.grant(now):
            self.nodes[id].asked = True
            actions.append(self._command(id, None, [Metric(REBIRTH, None, now, DataType.Boolean, True)], now))
        return actions

    # What the program does

    def command(self, id: NodeId, device: str | None, values: Mapping[str, Value], now: int) -> list[Action]:
        """Ask a node (``device`` None) or a device to set metrics, by alias where the birth gave one.

        Raises KeyError for what was not born, PayloadError for a value that the datatype does not hold.
        """
        source = self.nodes[id].node if device is None else self.nodes[id].devices[device]
        metrics = []
        for name, value in values.items():
            known = source.metrics[name]
            label = name if known.alias is None else None
            metrics.append(Metric(label, known.alias, now, known.datatype, value, is_null=value is None))
        return [self._command(id, device, metrics, now)]

    def rebirth(self, id: NodeId) -> None:
        """Ask a node for a rebirth when the budget allows it. Raises KeyError when the node was never heard of."""
        self.nodes[id].wants_rebirth = True
        self._settle(self.nodes[id])

    # Inside

    def _settle(self, view: NodeView) -> None:
        """Note what a node waits for."""
        if view.armed:
            self._armed.add(view.id)
        else:
            self._armed.discard(view.id)
        if view.wants_rebirth:
            view.wants_rebirth = False
            self.rebirths.want(view.id)
        elif view.answered:
            view.answered = False
            self.rebirths.done(view.id)

    def _command(self, id: NodeId, device: str | None, metrics: list[Metric], now: int) -> Publish:
        type = MessageType.NCMD if device is None else MessageType.DCMD
        return Publish(build(type, id, device), encode(Payload(now, metrics), with_datatypes=False), 0, False)

    def _state(self, online: bool) -> Publish:
        said = state.State(online, None if self._topic.legacy else self._timestamp)
        return Publish(self._state_topic, state.encode(said), 1, True)

    def _on_state(self, topic: StateTopic, payload: bytes) -> list[Action]:
        """Somebody says that this host is offline, and it is not: a will of before, or one that was kept
        [tck-id-message-flow-hid-sparkplug-state-message-delivered]."""
        if topic != self._topic or self.connected_at is None:
            return []
        said = state.decode(payload, legacy=topic.legacy)
        return [self._state(True)] if said is None or not said.online else []

"""The requirements checker: traffic goes in as it was seen, a verdict on each requirement comes out.

    checker = Checker()
    checker.see(Connected(...))
    checker.see(Published(...))
    for finding in checker.findings(): ...

It says "checked against tck-ids": what it did not see it does not judge.
"""

from typing import final

from sparkplug.actions import Publish
from sparkplug.check.broker import BrokerWatch
from sparkplug.check.content import read
from sparkplug.check.edge import EdgeWatch
from sparkplug.check.hosts import HostWatch
from sparkplug.check.observed import (
    Connected,
    Delivered,
    Disconnected,
    Observation,
    Published,
    Subscribed,
)
from sparkplug.check.topics import check_topic, is_ours
from sparkplug.check.verdicts import Finding, Verdicts
from sparkplug.topic import COMMANDS, MessageType, NodeId, StateTopic, Topic, TopicError, parse

_WITH_WILL = 4


@final
class Checker:
    """``servers``: how many an edge node knows. ``grace_ms``: how long messages may be on their way."""

    def __init__(self, *, servers: int = 1, grace_ms: int = 1000) -> None:
        self._verdicts = Verdicts()
        self._servers = servers
        self._grace_ms = grace_ms
        self._edges: dict[NodeId, EdgeWatch] = {}
        self._hosts: dict[tuple[str, str], HostWatch] = {}
        self._brokers: dict[str, BrokerWatch] = {}
        self._wills: dict[tuple[str, str], Publish] = {}
        self._ids: dict[str, str] = {}  # as written, by their case-folded form
        self._devices: dict[str, NodeId] = {}

    def see(self, seen: Observation) -> None:
        """Take in what was seen next."""
        if isinstance(seen, Published):
            self._on_published(seen)
        elif isinstance(seen, Delivered):
            self._on_delivered(seen)
        elif isinstance(seen, Connected):
            self._on_connected(seen)
        elif isinstance(seen, Subscribed):
            for edge in self._edges_of(seen.client):
                edge.on_subscribed(seen)
            host = self._hosts.get((seen.client, seen.server))
            if host is not None:
                host.on_subscribed(seen)
        elif isinstance(seen, Disconnected):
            self._on_disconnected(seen)
        else:
            for (client, _), host in self._hosts.items():
                if client == seen.client:
                    host.on_marked(seen)

    def findings(self) -> list[Finding]:
        """The verdict on each requirement until now."""
        for broker in self._brokers.values():
            broker.conclude()
        return self._verdicts.findings()

    def _edges_of(self, client: str) -> list[EdgeWatch]:
        return [edge for edge in self._edges.values() if edge.client == client]

    def _edge(self, id: NodeId) -> EdgeWatch:
        if id not in self._edges:
            self._edges[id] = EdgeWatch(self._verdicts, id, self._servers, self._grace_ms)
            self._check_case(str(id))
        return self._edges[id]

    def _host(self, client: str, server: str, topic: StateTopic | None) -> HostWatch:
        key = (client, server)
        if key not in self._hosts:
            self._hosts[key] = HostWatch(self._verdicts, topic, server)
        return self._hosts[key]

    def _broker(self, server: str) -> BrokerWatch:
        return self._brokers.setdefault(server, BrokerWatch(self._verdicts, self._grace_ms))

    def _check_case(self, name: str) -> None:
        same = self._ids.setdefault(name.casefold(), name) == name
        self._verdicts.expect(same, f"{name} and {self._ids[name.casefold()]}", "case-sensitivity-sparkplug-ids")

    def _on_connected(self, seen: Connected) -> None:
        will = seen.will
        self._wills.pop((seen.client, seen.server), None)
        if will is None:
            return
        self._wills[seen.client, seen.server] = will
        if not is_ours(will.topic):
            return
        check_topic(self._verdicts, will.topic)
        topic = _parse(will.topic)
        if isinstance(topic, StateTopic):
            host = self._host(seen.client, seen.server, topic)
            twice = [
                other
                for other in self._hosts.values()
                if other is not host and other.connected and other.topic == topic and other.server == seen.server
            ]
            if twice:
                self._verdicts.unmet(f"two hosts {topic.host}", "operational-behavior-host-application-host-id")
            host.on_connected(seen)
        elif topic is not None and topic.type is MessageType.NDEATH:
            self._edge(topic.id).on_connected(seen)

    def _on_disconnected(self, seen: Disconnected) -> None:
        for edge in self._edges_of(seen.client):
            if edge.server == seen.server:
                edge.on_disconnected(seen)
        host = self._hosts.get((seen.client, seen.server))
        if host is not None:
            host.on_disconnected(seen)
        will = self._wills.pop((seen.client, seen.server), None)
        if will is not None and seen.reason in (None, _WITH_WILL):
            self._broker(seen.server).on_will(will, seen.at)

    def _on_published(self, seen: Published) -> None:
        message = seen.message
        self._broker(seen.server).on_published(message, seen.at)
        if not is_ours(message.topic):
            return
        check_topic(self._verdicts, message.topic)
        topic = _parse(message.topic)
        if isinstance(topic, StateTopic):
            self._host(seen.client, seen.server, topic).on_state(topic, seen, self._servers_of(topic))
        elif topic is None:
            return
        elif topic.type in COMMANDS:
            edge = self._edge(topic.id)
            self._host(seen.client, seen.server, None).on_command(topic, seen, edge.content)
            if edge.client is None:
                edge.on_command(message, seen.at)
        else:
            if topic.device is not None:
                other = self._devices.setdefault(topic.device, topic.id)
                if other != topic.id:
                    self._verdicts.met("topic-structure-namespace-duplicate-device-id-across-edge-node")
            self._edge(topic.id).on_published(topic, seen)

    def _servers_of(self, topic: StateTopic) -> int:
        return len({host.server for host in self._hosts.values() if host.topic == topic})

    def _on_delivered(self, seen: Delivered) -> None:
        message = seen.message
        self._broker(seen.server).on_delivered(message, seen.at)
        topic = _parse(message.topic)
        host = self._hosts.get((seen.client, seen.server))
        if isinstance(topic, StateTopic):
            for edge in self._edges_of(seen.client):
                edge.on_state(topic, message.payload, seen.at)
            if host is not None and topic == host.topic:
                host.on_own_state(message.payload, seen.at)
        elif topic is None:
            return
        elif topic.type in COMMANDS:
            for edge in self._edges_of(seen.client):
                edge.on_command(message, seen.at)
        elif host is not None:
            found = read(message.payload)
            if found is not None:
                host.on_delivered(topic, found, seen.at)


def _parse(topic: str) -> Topic | StateTopic | None:
    try:
        return parse(topic)
    except TopicError:
        return None

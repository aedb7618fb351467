"""``forebay sparkplug simulate``: edge nodes with devices that publish as conforming ones do, for tests and demos."""

import asyncio
import json
import ssl
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, final

import typer

from gateway.cli.connecting import (
    HostOption,
    PortOption,
    RetryOption,
    TlsOption,
    UserOption,
    password_of,
    run_client,
    tls_with,
)
from gateway.cli.options import UsageError
from gateway.cli.user import PasswordFileOption
from gateway.client import Client, Delivery, LostError, Subscription, Will
from sparkplug.actions import Action, Command, Disconnect, Publish, Refused, Subscribe
from sparkplug.datatypes import DataType
from sparkplug.model import Metric, PayloadError, Value
from sparkplug.node import EdgeNode
from sparkplug.topic import NodeId, TopicError, check_id

_LEAVE_S: Final = 5.0
_LAG_S: Final = 1.0  # what it is late by is made up for, up to this
_PAUSE_S: Final = (0.1, 5.0)  # between attempts to connect, the first and the longest
_KINDS: Final = (DataType.Int64, DataType.Double, DataType.Int32, DataType.Boolean, DataType.String)


def _now() -> int:
    """UTC in ms."""
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class _Plan:
    """What every node does."""

    host: str
    port: int
    group: str
    devices: int
    metrics: int
    interval_s: float  # between two messages of one source
    count: int | None  # messages of each source
    retry_s: float
    keepalive_s: int
    primary_host: str | None
    username: str | None
    password: bytes | None
    tls: ssl.SSLContext | None


@dataclass(slots=True)
class _Totals:
    """What all nodes did."""

    sent: Counter[str] = field(default_factory=Counter)
    sessions: int = 0
    lost: int = 0
    commands: int = 0
    refused: int = 0


def _value(index: int, count: int) -> Value:
    """Of metric ``index`` in message ``count``: the first is the count itself, and each differs from the one before."""
    return (count, 20 + count % 100 / 10, count * 7 % 1000 - 500, count % 2 == 1, f"state {count % 4}")[index % 5]


@final
class _Node:
    """One edge node, over as many sessions as it takes."""

    def __init__(self, plan: _Plan, number: int, totals: _Totals) -> None:
        now = _now()
        name = f"node-{number}"
        own = [
            Metric("Properties/Hardware Make", datatype=DataType.String, value="Forebay"),
            Metric("Properties/Hardware Model", datatype=DataType.String, value="simulator"),
        ]
        names = ["Counter", *(f"Signals/{_KINDS[i % 5].name} {i}" for i in range(1, plan.metrics))]
        metrics = [Metric(each, datatype=_KINDS[i % 5], value=_value(i, 0)) for i, each in enumerate(names)]
        # the will of a run before this one must not have the number of this one's birth
        self.machine = EdgeNode(
            NodeId(plan.group, name),
            own if plan.devices else [*own, *metrics],
            bd_seq=now // 1000 % 256,
            primary_host=plan.primary_host,
        )
        self._sources: list[str | None] = [f"device-{i}" for i in range(1, plan.devices + 1)] or [None]
        for device in self._sources:
            if device is not None:
                self.machine.add_device(device, metrics, now)
        self._plan, self._totals, self._names = plan, totals, names
        self._client_id = f"forebay-sim-{plan.group}-{name}"
        self._outbox: deque[Action] = deque()
        self._wake = asyncio.Event()
        self._stopping = False
        self._due = [float("inf")] * len(self._sources)  # until there was a first session
        self._counts = [0] * len(self._sources)

    def stop(self) -> None:
        """Say goodbye and end."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Until it is stopped or has sent its count. Raises LostError, RefusedError."""
        loop = asyncio.get_running_loop()
        opened, pause_s = loop.time(), _PAUSE_S[0]
        while not self._over:
            before = self._totals.sessions
            try:
                await self._session()
            except LostError:
                if self._totals.sessions > before:
                    opened, pause_s = loop.time(), _PAUSE_S[0]
                    self._totals.lost += 1
                if loop.time() - opened >= self._plan.retry_s:
                    raise
                await self._sleep(pause_s)
                pause_s = min(pause_s * 2, _PAUSE_S[1])

    @property
    def _over(self) -> bool:
        sent = self._plan.count is not None and min(self._counts) >= self._plan.count
        return self._stopping or (sent and self.machine.backlog == 0)

    async def _session(self) -> None:
        """One connection, to its end. Raises LostError, RefusedError."""
        plan, will = self._plan, self.machine.connect(_now()).will
        link = Client(
            plan.host, plan.port, client_id=self._client_id, username=plan.username, password=plan.password,
            tls=plan.tls, deliver=self._deliver, will=Will(will.topic, will.payload, will.qos, will.retain),
            keepalive_s=plan.keepalive_s,
        )  # fmt: skip
        watching = asyncio.ensure_future(self._wake_when_lost(link))
        try:
            await link.open()
            self._totals.sessions += 1
            if min(self._due) == float("inf"):
                step, start = plan.interval_s / len(self._due), asyncio.get_running_loop().time()
                self._due = [start + step * (i + 1) for i in range(len(self._due))]
            self._outbox.extend(self.machine.connected(_now()))
            while await self._perform(link) and not self._over:
                self._outbox.extend(self.machine.tick(_now()))
                if not self._outbox:
                    await self._sleep(1.0)
            if self._over:
                self._say_goodbye()
                await self._perform(link)
        finally:
            watching.cancel()
            self._outbox.clear()
            self.machine.disconnected(_now())

    async def _wake_when_lost(self, link: Client) -> None:
        await link.lost.wait()
        self._wake.set()

    async def _sleep(self, seconds: float) -> None:
        """Until something came, a value is due, or that long; values that are due are written."""
        end = asyncio.get_running_loop().time() + seconds
        try:
            async with asyncio.timeout_at(min(end, *self._due) if self._writes else end):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()
        self._write_due()

    @property
    def _writes(self) -> bool:
        return self._plan.count is None or min(self._counts) < self._plan.count

    def _write_due(self) -> None:
        now = asyncio.get_running_loop().time()
        for i, source in enumerate(self._sources):
            if self._due[i] > now or (self._plan.count is not None and self._counts[i] >= self._plan.count):
                continue
            self._due[i] = max(self._due[i] + self._plan.interval_s, now - _LAG_S)
            self._counts[i] += 1
            values = {name: _value(j, self._counts[i]) for j, name in enumerate(self._names)}
            self._outbox.extend(self.machine.write(source, values, _now()))

    def _deliver(self, one: Delivery) -> None:
        self._outbox.extend(self.machine.message(one.topic, one.payload, _now(), retained=one.retain))
        self._wake.set()
        one.ack()

    def _say_goodbye(self) -> None:
        for device in self._sources:
            if device is not None:
                self._outbox.extend(self.machine.device_lost(device, _now()))
        self._outbox.extend(self.machine.leave(_now()))

    async def _perform(self, link: Client) -> bool:
        """Do what the machine said; False when it ended the session. Raises LostError, RefusedError."""
        while self._outbox:
            if link.lost.is_set():
                break
            match self._outbox.popleft():
                case Publish(topic, payload, qos, retain):
                    await link.send(topic, payload, qos, retain)
                    self._totals.sent[topic.split("/")[2]] += 1
                case Subscribe(filters):
                    await link.subscribe([Subscription(name) for name, _ in filters])
                case Disconnect(with_will):
                    await link.close(with_will=with_will)
                    return False
                case Command(device, name, value):
                    self._totals.commands += 1
                    self._obey(device, name, value)
                case Refused():
                    self._totals.refused += 1
        if link.lost.is_set():
            raise LostError(link.lost_reason())
        return True

    def _obey(self, device: str | None, name: str, value: Any) -> None:
        try:
            self._outbox.extend(self.machine.write(device, {name: value}, _now()))
        except PayloadError:
            self._totals.refused += 1


def simulate(
    nodes: Annotated[int, typer.Option("--nodes", min=1, max=10_000, help="Edge nodes.")] = 1,
    devices: Annotated[int, typer.Option("--devices", min=0, help="Devices of each; 0 = the nodes alone.")] = 2,
    metrics: Annotated[int, typer.Option("--metrics", min=1, help="Metrics of each device.")] = 10,
    rate: Annotated[float, typer.Option("--rate", min=0.001, help="Data messages a second, of all together.")] = 10,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="Leave after so many data messages of each device.")
    ] = None,
    duration: Annotated[float | None, typer.Option("--duration", min=0, help="Leave after so many seconds.")] = None,
    group: Annotated[str, typer.Option("--group", help="Group id.")] = "Simulation",
    primary_host: Annotated[
        str | None, typer.Option("--primary-host", help="Wait for this host to be online.", show_default=False)
    ] = None,
    keep_alive: Annotated[int, typer.Option("--keep-alive", min=1, max=65535, help="Seconds.")] = 30,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    host: HostOption = "127.0.0.1",
    port: PortOption = 1883,
    user: UserOption = None,
    password_file: PasswordFileOption = None,
    tls_ca: TlsOption = None,
    retry: RetryOption = 60,
) -> None:
    """Run edge nodes node-1, node-2 ... with device-1 ...: births, data, rebirth on request, deaths at the end.

    Each data message changes every metric of its device; the first, Counter, counts the messages. What changes while
    the connection is lost comes afterwards as historical.
    """
    try:
        check_id("--group", group)
        if primary_host is not None:
            check_id("--primary-host", primary_host)
    except TopicError as error:
        raise UsageError(f"{error}: expected text without + / #") from None
    interval_s = nodes * max(devices, 1) / rate
    password = password_of(user, password_file)
    plan = _Plan(
        host, port, group, devices, metrics, interval_s, count, retry, keep_alive, primary_host, user, password,
        tls_with(tls_ca),
    )  # fmt: skip
    run_client(_run(plan, nodes, duration, as_json))


async def _run(plan: _Plan, nodes: int, duration_s: float | None, as_json: bool) -> None:
    """All nodes to their end, then the summary. Raises LostError, RefusedError."""
    totals = _Totals()
    running = [_Node(plan, number, totals) for number in range(1, nodes + 1)]
    tasks = [asyncio.ensure_future(node.run()) for node in running]
    start = time.monotonic()
    try:
        await asyncio.wait(tasks, timeout=duration_s, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for node in running:
            node.stop()
        await asyncio.wait(tasks, timeout=_LEAVE_S)
        for task in tasks:
            task.cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        _print_summary(plan, running, totals, time.monotonic() - start, as_json)
    for error in found:
        if isinstance(error, Exception):
            raise error


def _print_summary(plan: _Plan, nodes: list[_Node], totals: _Totals, seconds: float, as_json: bool) -> None:
    summary = {
        "nodes": len(nodes),
        "devices": len(nodes) * plan.devices,
        "metrics": len(nodes) * max(plan.devices, 1) * plan.metrics,
        **{kind: totals.sent[kind] for kind in ("NBIRTH", "DBIRTH", "NDATA", "DDATA", "DDEATH", "NDEATH")},
        "sessions": totals.sessions,
        "rebirths": max(totals.sent["NBIRTH"] - totals.sessions, 0),
        "lost": totals.lost,
        "commands": totals.commands,
        "refused": totals.refused,
        "dropped": sum(node.machine.dropped for node in nodes),
        "waiting": sum(node.machine.backlog for node in nodes),
        "seconds": round(seconds, 1),
    }
    typer.echo(json.dumps(summary) if as_json else ", ".join(f"{name} {value}" for name, value in summary.items()))

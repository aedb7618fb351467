"""Drives an edge node or a host over the gateway's own client."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from gateway.client import Client, Delivery, Subscription, Will
from sparkplug.actions import Action, Connect, Disconnect, Publish, Subscribe
from tests.sparkplug_relay import utc_ms

_TICK_S = 0.05


class Machine(Protocol):
    """What EdgeNode and Host have in common."""

    def connect(self, now: int) -> Connect: ...
    def connected(self, now: int) -> list[Action]: ...
    def disconnected(self, now: int) -> list[Action] | None: ...
    def message(self, topic: str, payload: bytes, now: int, *, retained: bool = False) -> list[Action]: ...
    def tick(self, now: int) -> list[Action]: ...


class Driver:
    """One machine, a session at a time; ``told`` gets what is not for the connection."""

    def __init__(
        self, client_id: str, machine: Machine, ports: list[int], told: Callable[[Action], None] = lambda action: None
    ) -> None:
        self.client_id, self.machine, self.ports, self.told = client_id, machine, ports, told
        self.over = asyncio.Event()  # the session is
        self._outbox: asyncio.Queue[Action] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """A new session."""
        wanted = self.machine.connect(utc_ms())
        will = wanted.will
        self.over.clear()
        self._outbox = asyncio.Queue()
        self._link = Client(
            "127.0.0.1", self.ports[wanted.server], client_id=self.client_id, deliver=self._deliver,
            will=Will(will.topic, will.payload, will.qos, will.retain),
        )  # fmt: skip
        await self._link.open()
        self.do(self.machine.connected(utc_ms()))
        self._tasks = [asyncio.ensure_future(each) for each in (self._perform(), self._tick(), self._watch())]

    def do(self, actions: Iterable[Action]) -> None:
        for action in actions:
            self._outbox.put_nowait(action)

    def _deliver(self, one: Delivery) -> None:
        self.do(self.machine.message(one.topic, one.payload, utc_ms(), retained=one.retain))
        one.ack()

    async def _perform(self) -> None:
        while True:
            action = await self._outbox.get()
            if isinstance(action, Publish):
                await self._link.send(action.topic, action.payload, action.qos, action.retain)
            elif isinstance(action, Subscribe):
                await self._link.subscribe([Subscription(name) for name, _ in action.filters])
            elif isinstance(action, Disconnect):
                await self._link.close(with_will=action.with_will)
                self._end()
                return
            else:
                self.told(action)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self.do(self.machine.tick(utc_ms()))

    async def _watch(self) -> None:
        await self._link.lost.wait()
        self._end()

    def _end(self) -> None:
        if self.over.is_set():
            return
        self.over.set()
        for action in self.machine.disconnected(utc_ms()) or ():
            self.told(action)
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()

    async def stop(self) -> None:
        """End the session without a word."""
        tasks = self._tasks
        self._end()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._link.close()

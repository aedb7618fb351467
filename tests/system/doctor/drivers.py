"""Real clients as a plant has them: paho (also as set by Telegraf), gmqtt and mqtt.js (also as set by Node-RED).

All of them come back by themselves when the gateway does. Payloads are numbers, a filler behind them.
"""

import asyncio
import contextlib
import json
import logging
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Protocol, final

import gmqtt
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.system.drivers import HERE

WAIT_S = 60.0


def wait_until(true: Callable[[], bool], what: str, timeout: float = WAIT_S) -> None:
    deadline = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < deadline, f"not within {timeout} s: {what}"
        time.sleep(0.01)


class Device(Protocol):
    """One client. ``received`` counts what came, by number."""

    received: Counter[int]

    def open(self) -> None:
        """Connect, and subscribe to what its settings say; returns when that is done."""

    def publish(self, number: int, size: int = 0) -> None:
        """Hand a message to the library, connected or not."""

    def settle(self, numbers: Iterable[int]) -> None:
        """Wait until the gateway has answered for these, or at QoS 0 until they are written."""

    def is_connected(self) -> bool: ...

    def close(self) -> None:
        """Say goodbye and stay away."""


@final
class Paho:
    """``ack``: "at once", "never" (the output never writes), in Telegraf's manner after the message was handled."""

    def __init__(
        self, port: int, client_id: str, topic: str = "", qos: int = 1, version: int = 4, clean: bool = False,
        keepalive: int = 30, expiry: int | None = None, subscribe: tuple[str, ...] = (), never_ack: bool = False,
        once: bool = False,
    ) -> None:  # fmt: skip
        self.received: Counter[int] = Counter()
        self.done: set[int] = set()  # packet ids
        self.port, self.client_id, self.topic, self.qos, self.keepalive = port, client_id, topic, qos, keepalive
        self.version, self.clean, self.expiry, self.subscribe = version, clean, expiry, subscribe
        self.never_ack = never_ack
        self.once = once  # subscribes only where no session was found, as Telegraf does
        self.numbers: dict[int, int] = {}
        self.ready = threading.Event()
        self.client: paho.Client | None = None

    def acked(self) -> set[int]:
        return {self.numbers[mid] for mid in list(self.done) if mid in self.numbers}

    def _make(self) -> paho.Client:
        version = MQTTProtocolVersion(self.version)
        how: dict[str, Any] = {"clean_session": self.clean} if self.version == 4 else {}
        client = paho.Client(
            CallbackAPIVersion.VERSION2, self.client_id, protocol=version, manual_ack=self.never_ack, **how
        )
        client.reconnect_delay_set(1, 1)
        client.max_inflight_messages_set(100)
        client.on_connect, client.on_message, client.on_publish = self._connected, self._came, self._published
        client.on_subscribe = lambda *_: self.ready.set()
        return client

    def open(self) -> None:
        self.ready.clear()
        client = self.client = self._make()
        how: dict[str, Any] = {}
        if self.version == 5:
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            if self.expiry is not None:
                properties.SessionExpiryInterval = self.expiry
            how = {"clean_start": self.clean, "properties": properties}
        client.connect("127.0.0.1", self.port, self.keepalive, **how)
        client.loop_start()
        wait_until(self.ready.is_set, f"{self.client_id} connected and subscribed")

    def _connected(self, client: paho.Client, _data: Any, flags: Any, code: Any, *_: Any) -> None:
        if code != 0:
            return
        if self.subscribe and not (self.once and flags.session_present):
            client.subscribe([(topic, self.qos) for topic in self.subscribe])
        else:
            self.ready.set()

    def _came(self, _client: paho.Client, _data: Any, message: paho.MQTTMessage) -> None:
        self.received[int(message.payload.split()[0])] += 1

    def _published(self, _client: paho.Client, _data: Any, mid: int, *_: Any) -> None:
        self.done.add(mid)

    def publish(self, number: int, size: int = 0) -> None:
        assert self.client is not None
        info = self.client.publish(self.topic, b"%d %s" % (number, b"x" * size), self.qos)
        self.numbers[info.mid] = number

    def settle(self, numbers: Iterable[int]) -> None:
        wait_until(lambda: self.acked().issuperset(numbers), f"{self.client_id}: acknowledgements")

    def is_connected(self) -> bool:
        return self.client is not None and self.client.is_connected()

    def close(self) -> None:
        if self.client is not None:
            self.client.disconnect()
            self.client.loop_stop()
            self.client = None


class Loop:
    """An event loop on a thread of its own, for gmqtt."""

    def __init__(self) -> None:
        logging.getLogger("gmqtt").setLevel(logging.CRITICAL)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(WAIT_S)

    def close(self) -> None:
        async def end() -> None:
            for task in asyncio.all_tasks():
                if task is not asyncio.current_task():
                    task.cancel()
            await asyncio.sleep(0)

        self.run(end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(20)
        self.loop.close()


@final
class Gmqtt:
    def __init__(
        self, loop: Loop, port: int, client_id: str, topic: str = "", qos: int = 1, clean: bool = False,
        expiry: int | None = 0xFFFFFFFF, subscribe: tuple[str, ...] = (), message_expiry: int | None = None,
        **properties: Any,
    ) -> None:  # fmt: skip
        self.received: Counter[int] = Counter()
        self.loop, self.port, self.client_id, self.topic, self.qos = loop, port, client_id, topic, qos
        self.clean, self.subscribe, self.message_expiry = clean, subscribe, message_expiry
        self.properties = {**properties, **({} if expiry is None else {"session_expiry_interval": expiry})}
        self.ready = threading.Event()
        self.client: Any = None

    def open(self) -> None:
        self.ready.clear()
        self.loop.run(self._open())
        wait_until(self.ready.is_set, f"{self.client_id} connected and subscribed")

    async def _open(self) -> None:
        client = gmqtt.Client(self.client_id, clean_session=self.clean, **self.properties)
        client.set_config({"reconnect_delay": 0.2, "reconnect_retries": gmqtt.constants.UNLIMITED_RECONNECTS})
        client.on_connect, client.on_message = self._connected, self._came
        client.on_subscribe = lambda *_: self.ready.set()
        self.client = client
        await client.connect("127.0.0.1", self.port, keepalive=30)

    def _connected(self, client: Any, *_: Any) -> None:
        for topic in self.subscribe:
            client.subscribe(topic, qos=self.qos)
        if not self.subscribe:
            self.ready.set()

    def _came(self, _client: Any, _topic: str, payload: bytes, *_: Any) -> int:
        self.received[int(payload.split()[0])] += 1
        return 0

    def publish(self, number: int, size: int = 0) -> None:
        async def hand_over() -> None:
            how = {} if self.message_expiry is None else {"message_expiry_interval": self.message_expiry}
            with contextlib.suppress(OSError):
                self.client.publish(self.topic, b"%d %s" % (number, b"x" * size), qos=self.qos, **how)

        self.loop.run(hand_over())

    def settle(self, numbers: Iterable[int]) -> None:
        """It does not report acknowledgements: until nothing waits for one."""
        wait_until(lambda: bool(self.client._persistent_storage.is_empty), f"{self.client_id}: acknowledgements")

    def is_connected(self) -> bool:
        return self.client is not None and bool(self.client.is_connected)

    def close(self) -> None:
        if self.client is not None:
            client, self.client = self.client, None
            self.loop.run(client.disconnect())


@final
class Node:
    """The process in which all mqtt.js clients live."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.clients: dict[str, MqttJs] = {}
        self.process = subprocess.Popen(
            ["node", str(HERE / "clients" / "mqttjs_many.mjs")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self.thread = threading.Thread(target=self._follow, daemon=True)
        self.thread.start()

    def tell(self, **command: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def _follow(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            kind, name, *rest = line.split()
            client = self.clients.get(name)
            if client is not None:
                client.said(kind, rest)

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.thread.join(20)
        self.process.stdout.close()


@final
class MqttJs:
    """``options`` are mqtt.js's own; ``nodered``: it publishes only while it believes to be connected."""

    def __init__(
        self, node: Node, port: int, name: str, topic: str = "", qos: int = 1, subscribe: tuple[str, ...] = (),
        nodered: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        self.received: Counter[int] = Counter()
        self.acked: set[int] = set()
        self.node, self.name, self.topic, self.qos, self.subscribe = node, name, topic, qos, subscribe
        self.nodered = nodered
        self.options: dict[str, Any] = {"port": port, "keepalive": 30, **options}
        self.connected = self.ready = False

    def said(self, kind: str, rest: list[str]) -> None:
        if kind == "C":
            self.connected = True
            self.ready = self.ready or not self.subscribe
        elif kind == "S":
            self.ready = True
        elif kind == "A":
            self.acked.add(int(rest[0]))
        elif kind == "R":
            self.received[int(rest[0])] += 1
        elif kind == "X":
            self.connected = False

    def open(self) -> None:
        self.connected = self.ready = False
        self.node.clients[self.name] = self
        self.node.tell(
            do="open", name=self.name, options=self.options, topics=list(self.subscribe), qos=self.qos,
            nodered=self.nodered,
        )  # fmt: skip
        wait_until(lambda: self.ready, f"{self.name} connected and subscribed")

    def publish(self, number: int, size: int = 0) -> None:
        payload = f"{number} {'x' * size}"
        self.node.tell(do="publish", name=self.name, topic=self.topic, payload=payload, qos=self.qos)

    def settle(self, numbers: Iterable[int]) -> None:
        wait_until(lambda: self.acked.issuperset(numbers), f"{self.name}: acknowledgements")

    def is_connected(self) -> bool:
        return self.connected

    def close(self) -> None:
        if self.connected:
            self.node.tell(do="close", name=self.name)
            wait_until(lambda: not self.connected, f"{self.name} closed")

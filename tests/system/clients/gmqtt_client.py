"""gmqtt as a real client (see drivers.py). It does not report acknowledgements: its storage is watched for them.

It does not know a repeated QoS 2 delivery (same packet id before PUBREL): what comes with DUP is said as D, not R.
"""

# ruff: noqa: ASYNC110, ASYNC240  (a file is looked for, nothing else runs on this loop)

import asyncio
import itertools
import logging
import os
import sys
from typing import Any

import gmqtt
from gmqtt.storage import PersistentStorage

IN_FLIGHT = 50


def say(*words: object) -> None:
    print(*words, flush=True)


class Watched(PersistentStorage):  # type: ignore[misc]
    """Says A when the client drops a stored publish because the broker has acknowledged it."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: dict[int, int] = {}
        self.coming = 0

    def push_message(self, mid: int, raw_package: bytes) -> None:
        # the second push of a mid is the PUBREL that takes the place of the PUBLISH
        self.numbers.setdefault(mid, self.coming)
        super().push_message(mid, raw_package)

    def remove_message_by_mid(self, mid: int) -> None:
        super().remove_message_by_mid(mid)
        if mid in self.numbers:
            say("A", self.numbers.pop(mid))


async def publish(client: Any, store: Watched, name: str, topic: str, qos: int, stop: str, rate: float) -> None:
    for number in itertools.count(1):
        while len(store.numbers) >= IN_FLIGHT or not client.is_connected:
            await asyncio.sleep(0.02)
        if os.path.exists(stop):
            break
        await asyncio.sleep(1 / rate)
        say("S", number)
        store.coming = number
        client.publish(f"{topic}/{number % 3}", f"{name} {number}", qos=qos)
    await store.wait_empty()
    say("DONE")


async def main() -> None:
    logging.disable(logging.CRITICAL)
    mode, port, name, topic, qos, stop, rate = sys.argv[1:]
    store = Watched()
    client = gmqtt.Client(
        name, clean_session=False, session_expiry_interval=3600, optimistic_acknowledgement=False,
        persistent_storage=store,
    )  # fmt: skip
    client.set_config({"reconnect_delay": 0.2, "reconnect_retries": gmqtt.constants.UNLIMITED_RECONNECTS})

    def on_connect(_client: Any, flags: int, code: int, _properties: Any) -> None:
        say("C", flags & 1, code)
        if mode == "sub" and not flags & 1:
            client.subscribe(topic, qos=int(qos))

    async def on_message(_client: Any, _topic: str, payload: bytes, got: int, properties: Any) -> int:
        say("D" if got == 2 and properties["dup"] else "R", payload.decode())
        return 0

    client.on_connect = on_connect
    client.on_subscribe = lambda *_: say("READY")
    client.on_message = on_message
    await client.connect("127.0.0.1", int(port))
    if mode == "pub":
        await publish(client, store, name, topic, int(qos), stop, float(rate))
    else:
        while not os.path.exists(stop):
            await asyncio.sleep(0.05)
    await client.disconnect()


if __name__ == "__main__":
    asyncio.run(main())

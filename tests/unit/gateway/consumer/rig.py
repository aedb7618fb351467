"""A delivery and a broker for the tests of the parts; tests of the whole use the real ones."""

import asyncio
import logging
from typing import final

from gateway.consumer.message import Outgoing
from gateway.mqtt.packets import Properties


@final
class Given:
    """A delivery that notes its answer."""

    def __init__(
        self, topic: str, payload: bytes = b"", qos: int = 1, properties: Properties | None = None, *,
        retain: bool = False, dup: bool = False, identifiers: tuple[int, ...] = (), log: list[str] | None = None,
    ) -> None:  # fmt: skip
        self.topic, self.payload, self.qos, self.retain, self.dup = topic, payload, qos, retain, dup
        self.properties = properties or Properties()
        self.subscription_identifiers = list(identifiers)
        self.answer = ""
        self.log = [] if log is None else log

    @property
    def expiry_s(self) -> int:
        return self.properties.message_expiry_interval

    @property
    def user_properties(self) -> list[tuple[str, str]]:
        return self.properties.user_properties

    def ack(self) -> bool:
        self.answer = self.answer or "ack"
        self.log.append(f"ack {self.topic}")
        return self.qos > 0

    def leave(self) -> None:
        self.answer = self.answer or "left"
        self.log.append(f"leave {self.topic}")


@final
class Peer:
    """Takes what is published: each with the next of ``codes``, 0 when there is none; ``open`` is the connection."""

    def __init__(self, log: list[str] | None = None) -> None:
        self.log = [] if log is None else log
        self.published: list[Outgoing] = []
        self.codes: list[int] = []
        self.open = asyncio.Event()
        self.open.set()
        self.connected = True
        self.receive_maximum, self.slots, self.left = 8, 0, 0

    async def publish(self, message: Outgoing) -> int:
        self.log.append(f"publish {message.topic}")
        await self.open.wait()
        self.published.append(message)
        code = self.codes.pop(0) if self.codes else 0
        self.log.append(f"puback {message.topic} 0x{code:02x}")
        return code


def said(caplog_records: list[logging.LogRecord]) -> list[str]:
    """The lines of the log."""
    return [record.getMessage() for record in caplog_records]

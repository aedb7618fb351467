"""The connection to a broker, as handlers and copies need it."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, final

from gateway.client import Client, LostError, RefusedError, Subscription
from gateway.consumer.declaration import Subscription as Wanted
from gateway.consumer.dispatch import Dispatcher
from gateway.consumer.message import Outgoing
from gateway.consumer.source import DeclarationError

OFFER: Final = ("forebay-delayed", "1")
"""A user property of CONNACK: this broker has ``$delayed``."""

_log = logging.getLogger("forebay.consumer")


@final
class BrokerTransport:
    """One client's, for which the broker is asked to keep its session ``expiry_s`` seconds.

    ``attach`` comes before anything else.
    """

    def __init__(self, receive_maximum: int, expiry_s: int) -> None:
        self._receive_maximum, self._expiry_s = receive_maximum, expiry_s
        self._subscribed = False
        self._client: Client
        self._dispatcher: Dispatcher

    def attach(self, client: Client, dispatcher: Dispatcher) -> None:
        self._client, self._dispatcher = client, dispatcher

    @property
    def connected(self) -> bool:
        return self._subscribed and self._client.connected.is_set()

    @property
    def receive_maximum(self) -> int:
        return self._receive_maximum

    @property
    def slots(self) -> int:
        return self._client.unsettled + self._client.left

    @property
    def left(self) -> int:
        return self._client.left

    async def publish(self, message: Outgoing) -> int:
        try:
            return await self._client.publish(message.topic, message.payload, message.qos, False, message.properties)
        except RefusedError as error:
            return error.code

    def on_connected(self, session_present: bool) -> None:
        peer = self._client.peer
        try:
            self._dispatcher.on_connected(session_present, peer.identifiers, OFFER in peer.user_properties)
        except DeclarationError as error:
            self._dispatcher.fail(error)
            return
        _log.info(
            "connected to %s%s",
            self._client.where,
            ", session resumed" if session_present else "",
            extra={"client_id": self._client.client_id, "session_present": session_present},
        )
        self._judge_session(session_present)

    def _judge_session(self, is_present: bool) -> None:
        """Say what a session cannot keep, since that is lost without anybody being told."""
        about = {"client_id": self._client.client_id}
        if self._subscribed and self._expiry_s and not is_present:
            _log.warning("the broker has forgotten the session, and what it kept for it", extra=about)
        granted_s = self._client.peer.session_expiry_s
        if 0 <= granted_s < self._expiry_s:
            _log.warning("the broker keeps the session %d s instead of %d s", granted_s, self._expiry_s, extra=about)

    def on_lost(self, reason: str) -> None:
        _log.warning("%s", reason, extra={"client_id": self._client.client_id})

    async def subscribe(self, wanted: Sequence[Wanted]) -> None:
        """Where the connection breaks meanwhile it is done with the next. Raises RefusedError."""
        tell_apart = self._client.peer.identifiers
        asked = [
            Subscription(one.wire_filter, one.qos, one.identifier if tell_apart else 0, retain_handling=1)
            for one in wanted
        ]
        try:
            granted = await self._client.subscribe(asked)
        except LostError:
            granted = []
        self._subscribed = True
        for one, qos in zip(asked, granted, strict=False):
            if qos < one.qos:
                _log.warning(
                    "%s: the broker grants QoS %d instead of %d",
                    one.filter,
                    qos,
                    one.qos,
                    extra={"filter": one.filter, "qos": qos},
                )


async def first(*what: "asyncio.Task[None] | asyncio.Event") -> None:
    """Wait for the first of these."""
    tasks = [asyncio.ensure_future(one.wait()) if isinstance(one, asyncio.Event) else one for one in what]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task, one in zip(tasks, what, strict=True):
            if isinstance(one, asyncio.Event):
                task.cancel()

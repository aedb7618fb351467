"""What a client is subscribed to, over as many sessions as it takes."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final, final

from gateway.link.session import Session
from gateway.link.terms import LostError, Peer, RefusedError, Subscription, named, unwanted
from gateway.mqtt import reasons
from gateway.mqtt.packets import V5

_ANSWER_TIMEOUT_S: Final = 20.0
_FIXED_3: Final = 7  # fixed header and packet id
_FIXED_5: Final = 13  # and the properties: a subscription identifier
_SUBSCRIBED: Final = 3  # beside the name of a filter: its length and options
_UNSUBSCRIBED: Final = 2


@final
class Subscriptions:
    """Those that are wanted, and which of them the session has; ``where`` is the broker's name in errors."""

    def __init__(self, session: Session, where: str) -> None:
        self._session, self._where = session, where
        self._wanted: dict[str, Subscription] = {}
        self._made: set[str] = set()

    def forget(self) -> None:
        """The session is gone."""
        self._made.clear()

    async def add(self, subscriptions: list[Subscription], peer: Peer) -> list[int]:
        """Their reason codes; none without a connection. Raises LostError or RefusedError."""
        for one in subscriptions:
            self._wanted[one.filter] = one
            self._made.discard(one.filter)
        return await self._ask(subscriptions, peer) if self._session.is_open else []

    async def restore(self, peer: Peer) -> None:
        """Ask for what is wanted and not there. Raises LostError or RefusedError."""
        missing = [one for name, one in self._wanted.items() if name not in self._made]
        if missing:
            await self._ask(missing, peer)

    async def remove(self, filters: Sequence[str], peer: Peer) -> None:
        """Raises LostError."""
        for name in filters:
            self._wanted.pop(name, None)
            self._made.discard(name)
        if self._session.is_open and filters:
            gone = [Subscription(name) for name in filters]
            for part in in_parts(gone, self._fixed(), _UNSUBSCRIBED, peer.maximum_packet_bytes):
                await self._answered(self._session.forget([one.filter for one in part]), "UNSUBSCRIBE")

    async def _ask(self, subscriptions: list[Subscription], peer: Peer) -> list[int]:
        """One SUBSCRIBE for each identifier, or as many as it takes. What is refused is not wanted any more."""
        codes: dict[str, int] = {}
        groups: dict[int, list[Subscription]] = {}
        for one in subscriptions:
            codes[one.filter] = unwanted(one, peer) or self._too_large(one, peer)
            if not codes[one.filter]:
                groups.setdefault(one.identifier, []).append(one)
        fixed, limit = self._fixed(), peer.maximum_packet_bytes
        parts = [part for group in groups.values() for part in in_parts(group, fixed, _SUBSCRIBED, limit)]
        answers = [(part, self._session.ask(part)) for part in parts]
        for group, answer in answers:
            for one, code in zip(group, await self._answered(answer, "SUBSCRIBE"), strict=True):
                codes[one.filter] = code
        for one in subscriptions:
            if codes[one.filter] < 0x80:
                self._made.add(one.filter)
            else:
                self._wanted.pop(one.filter, None)
        for name, code in codes.items():
            if code >= 0x80:
                raise RefusedError(f"{self._where}: subscription to {name} refused ({named(code)})", code)
        return [codes[one.filter] for one in subscriptions]

    def _fixed(self) -> int:
        """Bytes of a packet before its filters, at most."""
        return _FIXED_5 if self._session.version == V5 else _FIXED_3

    def _too_large(self, one: Subscription, peer: Peer) -> int:
        size = self._fixed() + _SUBSCRIBED + len(one.filter.encode())
        return reasons.PACKET_TOO_LARGE if 0 < peer.maximum_packet_bytes < size else reasons.SUCCESS

    async def _answered(self, answer: "asyncio.Future[Sequence[int]]", what: str) -> Sequence[int]:
        await asyncio.wait({answer}, timeout=_ANSWER_TIMEOUT_S)
        if not answer.done():
            self._session.note(0, f"no answer to {what}")
            self._session.abort()
        if not answer.done() or answer.cancelled():
            raise LostError(f"{self._where}: no answer to {what}")
        return answer.result()


def in_parts(
    subscriptions: Sequence[Subscription], fixed: int, beside: int, limit: int
) -> Iterator[list[Subscription]]:
    """As few lists as there must be for packets of at most ``limit`` bytes; 0 = no limit.

    ``fixed`` bytes stand before the filters of a packet, and ``beside`` with each of them.
    """
    part: list[Subscription] = []
    size = fixed
    for one in subscriptions:
        more = beside + len(one.filter.encode())
        if part and 0 < limit < size + more:
            yield part
            part, size = [], fixed
        part.append(one)
        size += more
    if part:
        yield part

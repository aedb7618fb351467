"""What a client is subscribed to, over as many sessions as it takes."""

import asyncio
from collections.abc import Sequence
from typing import Final, final

from gateway.link.session import Session
from gateway.link.terms import LostError, Peer, RefusedError, Subscription, named, unwanted

_ANSWER_TIMEOUT_S: Final = 20.0


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

    async def remove(self, filters: Sequence[str]) -> None:
        """Raises LostError."""
        for name in filters:
            self._wanted.pop(name, None)
            self._made.discard(name)
        if self._session.is_open:
            await self._answered(self._session.forget(filters), "UNSUBSCRIBE")

    async def _ask(self, subscriptions: list[Subscription], peer: Peer) -> list[int]:
        """One SUBSCRIBE for each identifier. What is refused is not wanted any more."""
        codes: dict[str, int] = {}
        groups: dict[int, list[Subscription]] = {}
        for one in subscriptions:
            codes[one.filter] = unwanted(one, peer)
            if not codes[one.filter]:
                groups.setdefault(one.identifier, []).append(one)
        answers = [(group, self._session.ask(group)) for group in groups.values()]
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

    async def _answered(self, answer: "asyncio.Future[Sequence[int]]", what: str) -> Sequence[int]:
        await asyncio.wait({answer}, timeout=_ANSWER_TIMEOUT_S)
        if not answer.done():
            self._session.note(0, f"no answer to {what}")
            self._session.abort()
        if not answer.done() or answer.cancelled():
            raise LostError(f"{self._where}: no answer to {what}")
        return answer.result()

"""Messages on their way out, and a store that keeps them over the end of this process."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol, final

from gateway.link.terms import LostError

_log = logging.getLogger("forebay.client")


class Change(NamedTuple):
    """One step of one packet id: ``frame`` a PUBLISH to keep; None with ``released`` its PUBREL is due; else gone."""

    packet_id: int
    frame: bytes | None
    released: bool = False


class Outbox(Protocol):
    """A store of what is sent and not acknowledged, for a client that must not forget it when it ends."""

    def load(self) -> list[tuple[int, bytes, bool]]:
        """(packet id, PUBLISH, PUBREL is due), in the order in which they were sent first."""

    def apply(self, changes: Sequence[Change]) -> None:
        """All of them, on disk when this returns. Called from a thread of its own, one call at a time."""

    def close(self) -> None:
        """No more calls follow."""


@final
class Message:
    """One PUBLISH of QoS 1 or 2 until the broker has it."""

    __slots__ = ("done", "frame", "packet_id", "pending", "released", "tried")

    def __init__(self, packet_id: int, frame: bytes) -> None:
        self.packet_id, self.frame = packet_id, frame  # DUP is not set
        self.done: asyncio.Future[int] | None = None
        self.pending = 0  # changes that are not on disk yet; until then it does not go on
        self.released = False  # PUBREC came, PUBREL is due
        self.tried = False  # it was sent in this session

    def finish(self, code: int) -> None:
        if self.done is not None and not self.done.done():
            self.done.set_result(code)

    def fail(self, text: str) -> None:
        if self.done is not None and not self.done.done():
            self.done.set_exception(LostError(text))
            self.done.exception()  # nobody has to look


@final
class Keeping:
    """Writes changes to a store from a thread, all that gathered while the last were written as one.

    ``on_disk`` gets the messages that wait for nothing more of theirs, ``failed`` those of a batch that could not be
    written, with the reason.
    """

    def __init__(
        self,
        outbox: Outbox,
        on_disk: Callable[[list[Message]], None],
        failed: Callable[[list[Message], str], None],
    ) -> None:
        self._outbox, self._on_disk, self._failed = outbox, on_disk, failed
        self._changes: list[Change] = []
        self._waiting: list[Message] = []
        self._writing: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "outbox")

    def load(self) -> list[Message]:
        """What the last run left open. Raises what the store raises."""
        found = []
        for packet_id, frame, released in self._thread.submit(self._outbox.load).result():
            message = Message(packet_id, frame)
            message.released, message.tried = released, True
            found.append(message)
        return found

    def keep(self, message: Message, change: Change) -> None:
        """The message waits until this is on disk."""
        message.pending += 1
        self._changes.append(change)
        self._waiting.append(message)
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write())

    def forget(self, packet_id: int) -> None:
        """It is acknowledged. Rides with the next write: losing it costs a repetition."""
        self._changes.append(Change(packet_id, None))

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            changes, self._changes = self._changes, []
            waiting, self._waiting = self._waiting, []
            why = ""
            try:
                await loop.run_in_executor(self._thread, self._outbox.apply, changes)
            except Exception as error:
                _log.exception("the outgoing store cannot be written")
                why = f"the outgoing store cannot be written: {error}"
            for message in waiting:
                message.pending -= 1
            if why:
                self._failed(waiting, why)
            else:
                self._on_disk([message for message in waiting if message.pending == 0])
        self._writing = None

    async def close(self) -> None:
        """Write what is left, and end."""
        if self._writing is not None:
            await self._writing
        await asyncio.get_running_loop().run_in_executor(self._thread, self._end)
        self._thread.shutdown()

    def _end(self) -> None:
        try:
            if self._changes:
                self._outbox.apply(self._changes)
        except Exception:
            _log.exception("the outgoing store cannot be written")
        self._outbox.close()

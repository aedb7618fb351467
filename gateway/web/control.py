"""The asking side of the control socket for an event loop."""

import asyncio
import json
from pathlib import Path
from typing import Any, Final, final

from gateway.net.control import ShortPath, elsewhere

ANSWER_S: Final = 10.0  # for connecting, and for the next piece of an answer
PIECE_BYTES: Final = 262_144


class NoBrokerError(Exception):
    """Nobody answers at the control socket; the text is one line."""


class RefusedError(Exception):
    """The broker answered that it cannot do what was asked."""


@final
class Control:
    """One connection to the broker, made when it is needed; questions take their turns."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = asyncio.Lock()
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, request: dict[str, Any]) -> Any:
        """The broker's result. Raises NoBrokerError and RefusedError."""
        async with self._lock:
            try:
                async with asyncio.timeout(ANSWER_S) as limit:
                    answer = await self._exchange(json.dumps(request).encode() + b"\n", limit)
            except (OSError, TimeoutError, ValueError) as error:
                self.close()
                why = getattr(error, "strerror", None) or str(error) or "no answer"
                raise NoBrokerError(f"the broker does not answer: {why}") from None
            except asyncio.CancelledError:
                self.close()  # its answer would be taken for that of the next question
                raise
        if not answer["ok"]:
            raise RefusedError(answer["error"])
        return answer["result"]

    async def _exchange(self, line: bytes, limit: asyncio.Timeout) -> dict[str, Any]:
        fresh = self._writer is None
        try:
            return await self._once(line, limit)
        except (ConnectionError, EOFError):
            self.close()
            if fresh:
                raise ConnectionError("it closed the connection") from None
            return await self._once(line, limit)  # the broker was started anew since the last question

    async def _connect(self, path: Path) -> None:
        with ShortPath(path) as short:
            self._reader, self._writer = await asyncio.open_unix_connection(short, limit=PIECE_BYTES)

    async def _once(self, line: bytes, limit: asyncio.Timeout) -> dict[str, Any]:
        if self._writer is None or self._reader is None:
            try:
                await self._connect(self._path)
            except OSError:
                if not elsewhere(self._path).is_socket():
                    raise
                await self._connect(elsewhere(self._path))
        assert self._writer is not None and self._reader is not None
        self._writer.write(line)
        await self._writer.drain()
        answer = bytearray()
        while not answer.endswith(b"\n"):
            piece = await self._reader.read(PIECE_BYTES)
            if not piece:
                raise EOFError
            answer += piece
            limit.reschedule(asyncio.get_running_loop().time() + ANSWER_S)
        found: dict[str, Any] = json.loads(answer)
        return found

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None

"""Who may connect: the anonymous rule at once, passwords on threads of their own."""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, final

from gateway.core.model import Client
from gateway.net.connection import Connection, Turn

THREADS: Final = 2  # hashing is made to be slow: more would only take the event loop's core
WAITING_MAX: Final = 4096


@final
class Admission:
    """Answers the router's authentication questions.

    ``verify(username, password)`` blocks; None when there are no users: then
    the rule for clients without a name holds for all.
    """

    def __init__(self, turn: Turn) -> None:
        self.verify: Callable[[str, bytes], bool] | None = None
        self._turn = turn
        self._loop = asyncio.get_running_loop()
        self._pool = ThreadPoolExecutor(THREADS, "auth")
        self._waiting: deque[Client] = deque()
        self._working = 0
        self._closed = False

    def run(self) -> None:
        """Take the router's questions; call after every turn that touched the router."""
        for client in self._turn.router.take_auth():
            link = client.link
            assert isinstance(link, Connection)
            assert client.connect is not None
            if self._closed:
                link.abort()
            elif client.connect.username is None or self.verify is None:
                self._answer(client, link.anonymous)
            elif len(self._waiting) >= WAITING_MAX:
                link.abort()  # no answer is true here; it may come again
            else:
                self._waiting.append(client)
        self._work()

    def close(self) -> None:
        """Answer nobody any more."""
        self._closed = True
        self._waiting.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _work(self) -> None:
        while self._waiting and self._working < THREADS:
            client = self._waiting.popleft()
            connect, verify = client.connect, self.verify
            if client.closing or client.closed:
                continue
            assert connect is not None
            assert verify is not None
            self._working += 1
            self._pool.submit(self._verify, verify, client, connect.username or "", connect.password or b"")

    def _verify(self, verify: Callable[[str, bytes], bool], client: Client, username: str, password: bytes) -> None:
        """On a thread."""
        ok = False
        try:
            ok = verify(username, password)
        finally:
            self._loop.call_soon_threadsafe(self._verified, client, ok)

    def _verified(self, client: Client, ok: bool) -> None:
        self._working -= 1
        self._answer(client, ok)
        self._work()

    def _answer(self, client: Client, ok: bool) -> None:
        self._turn.router.on_authenticated(client, ok, self._turn.now())
        self._turn.touch()

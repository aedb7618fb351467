"""Who may connect: bans, certificates and the anonymous rule at once, passwords on threads of their own."""

import asyncio
import hashlib
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, final

from gateway.core.lifecycle import disconnect, turn_away
from gateway.core.model import Client
from gateway.mqtt.packets import Connect
from gateway.mqtt.reasons import BANNED, CONNECTION_RATE_EXCEEDED, NOT_AUTHORIZED
from gateway.net.connection import Connection, Turn
from gateway.net.flapping import Flapping
from gateway.net.throttle import Failures, host_of
from gateway.net.tls import user_of

THREADS: Final = max(1, min(2, len(os.sched_getaffinity(0)) - 1))  # that wait for a hash: one core is the event loop's
WAITING_MAX: Final = 4096
KNOWN_MAX: Final = 10_000  # logins that need no hash again: after a power cut all clients come at once


@final
class Admission:
    """Answers the router's authentication questions.

    ``verify(username, password)`` blocks; None when there are no users: then
    the rule for clients without a name holds for all. ``banned(host, client
    id, user)`` says who may not come in ("" = not known). ``certificate_user``
    is as the setting tls.certificate_user. ``failures`` counts wrong passwords.
    ``flapping``, where there is one, keeps out who comes and goes.
    """

    def __init__(self, turn: Turn) -> None:
        self.verify: Callable[[str, bytes], bool] | None = None
        self.banned: Callable[[str, str, str], bool] = _nobody
        self.certificate_user = "cn"
        self.failures = Failures(0)
        self.flapping: Flapping | None = None
        self._turn = turn
        self._loop = asyncio.get_running_loop()
        self._pool = ThreadPoolExecutor(THREADS, "auth")
        self._waiting: deque[Client] = deque()
        self._working = 0
        self._is_due = False  # the next of those who wait has a turn of the loop
        self._closed = False
        self._secret = os.urandom(32)  # what is remembered of passwords is of no use elsewhere
        self._known: dict[bytes, None] = {}

    def run(self) -> None:
        """Take the router's questions; call after every turn that touched the router."""
        for client in self._turn.router.take_auth():
            link = client.link
            assert isinstance(link, Connection)
            if self._closed:
                link.abort()
            else:
                self._decide(client, link)
        self._go_on()

    def forget(self) -> None:
        """Users have changed: every password is hashed again."""
        self._known.clear()

    def close(self) -> None:
        """Answer nobody any more."""
        self._closed = True
        self._waiting.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _decide(self, client: Client, link: Connection) -> None:
        connect = client.connect
        assert connect is not None
        certificate = link.certificate() if self.certificate_user != "off" else None
        if certificate:
            name = user_of(certificate, self.certificate_user)
            if not name:
                self._refuse(client, NOT_AUTHORIZED, "its certificate names no user")
                return
            connect.username = name
        if self.banned(host_of(client.peer), connect.client_id, connect.username or ""):
            self._refuse(client, BANNED, f"{connect.client_id} is banned")
        elif self.flapping is not None and self.flapping.is_banned(connect.client_id, self._turn.now()):
            self._refuse(client, BANNED, f"{connect.client_id} comes and goes too often")
        elif certificate:
            self._answer(client, True)
        elif connect.username is None or self.verify is None:
            self._answer(client, link.anonymous)
        elif self._settled(client, connect):
            pass
        elif len(self._waiting) >= WAITING_MAX:
            link.abort()  # no answer is true here; it may come again
        else:
            self._waiting.append(client)

    def _settled(self, client: Client, connect: Connect) -> bool:
        """Answer what needs no hash: who was in before, and who is from where too many wrong passwords came."""
        if self._digest(connect) in self._known:
            self._answer(client, True)
            return True
        if self.failures.is_spent(host_of(client.peer), connect.username or "", self._turn.now()):
            self._refuse(client, CONNECTION_RATE_EXCEEDED, "too many wrong passwords from there")
            return True
        return False

    def _go_on(self) -> None:
        """With one in each turn: of those that wait a thousand may need no hash any more, at once."""
        if self._waiting and self._working < THREADS and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._work)

    def _work(self) -> None:
        self._is_due = False
        if self._waiting:
            self._begin(self._waiting.popleft())
        self._go_on()

    def _begin(self, client: Client) -> None:
        connect, verify = client.connect, self.verify
        if client.closing or client.closed:
            return
        assert connect is not None
        assert verify is not None
        if self._settled(client, connect):
            return  # by what was found out while it waited
        self._working += 1
        self._pool.submit(self._verify, verify, client, connect.username or "", connect.password or b"")

    def _verify(self, verify: Callable[[str, bytes], bool], client: Client, username: str, password: bytes) -> None:
        """On a thread."""
        ok = False
        try:
            ok = verify(username, password)
        finally:
            self._loop.call_soon_threadsafe(self._verified, client, ok, verify)

    def _verified(self, client: Client, ok: bool, verify: Callable[[str, bytes], bool]) -> None:
        self._working -= 1
        connect = client.connect
        assert connect is not None
        if not ok:
            self.failures.spend(host_of(client.peer), connect.username or "", self._turn.now())
        elif verify is self.verify:
            if len(self._known) >= KNOWN_MAX:
                del self._known[next(iter(self._known))]
            self._known[self._digest(connect)] = None
        self._answer(client, ok)
        self._go_on()

    def _digest(self, connect: Connect) -> bytes:
        made = hashlib.blake2b(
            (connect.username or "").encode(errors="surrogatepass"), key=self._secret, digest_size=32
        )
        made.update(b"\0" + (connect.password or b""))  # a user name holds no zero [MQTT-1.5.4-2]
        return made.digest()

    def _refuse(self, client: Client, reason: int, why: str) -> None:
        core = self._turn.router.core
        core.log.append(f"{client.peer} refused: {why}")
        turn_away(core, client, reason)
        self._turn.touch()

    def _answer(self, client: Client, ok: bool) -> None:
        if ok and self.flapping is not None and not client.closed and not client.closing:
            if self._keep_out(self.flapping, client):
                return
        self._turn.router.on_authenticated(client, ok, self._turn.now())
        self._turn.touch()

    def _keep_out(self, flapping: Flapping, client: Client) -> bool:
        """Whether this connection was one too many; only those that were let in count, or anybody could ban others."""
        connect, now, core = client.connect, self._turn.now(), self._turn.router.core
        assert connect is not None
        name = connect.client_id
        ban = flapping.came(name, client.peer, now) if name else None
        if ban is None:
            return False
        count, window_ms, ban_ms = flapping.rule
        core.alarms.append(
            f"{name} has connected more than {count} times within {window_ms / 1000:g} s, the last time from "
            f"{' and '.join(ban.addresses)}: kept out for {ban_ms / 1000:g} s (forebay user unban --client-id {name})"
        )
        session = core.sessions.get(name)
        if session is not None and session.client is not None:
            disconnect(core, session.client, BANNED, now)
        turn_away(core, client, BANNED)
        self._turn.touch()
        return True


def _nobody(host: str, client_id: str, username: str) -> bool:
    return False

"""Who may see the page: browsers on this machine, and users who logged in.

A cookie names the visitor, signed with a key in the data folder, so that it outlives a restart. It is also what the
token of each form is made from: a form that another site sends has no token.
"""

import asyncio
import base64
import contextlib
import hmac
import os
import secrets
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple, final

from itsdangerous import BadData, Signer, URLSafeTimedSerializer
from starlette.requests import Request
from starlette.responses import Response

from gateway.auth import AuthError, Passwords
from gateway.net.listeners import is_loopback
from gateway.web.guesses import BusyError, Guesses
from gateway.web.roles import Roles

COOKIE: Final = "forebay"
LOGIN_S: Final = 12 * 3600
HASHES_WAITING_MAX: Final = 8
ENDED_MAX: Final = 1000


class KeyFileError(Exception):
    """The key file cannot be used; one line that names it."""


class Visitor(NamedTuple):
    """``user`` is empty for who did not log in; ``session`` is a random word."""

    user: str
    session: str
    fresh: bool  # has no cookie yet


def read_key(path: Path) -> bytes:
    """The secret of the cookies; made when there is none, readable for the owner only. Raises KeyFileError."""
    try:
        with contextlib.suppress(FileExistsError):
            made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(made, "wb") as out:
                out.write(secrets.token_bytes(32))
        key = path.read_bytes()
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror}") from None
    if len(key) < 32:
        raise KeyFileError(f"{path}: expected 32 random bytes; without the file it is made anew")
    return key


@final
class Access:
    """``roles`` says what a user may do; ``clock`` gives seconds and only goes forward."""

    def __init__(
        self, passwords: Passwords, roles: Roles, key: bytes, always: bool, clock: Callable[[], float]
    ) -> None:
        self._passwords = passwords
        self._roles = roles
        self._always = always
        self._guesses = Guesses(clock)
        self._cookies = URLSafeTimedSerializer(key, salt="visitor")
        self._forms = Signer(key, salt="form")
        self._pool = ThreadPoolExecutor(1, "login")
        self._waiting = 0
        self._ended: OrderedDict[str, None] = OrderedDict()  # sessions that logged out
        self._read_at: tuple[int, int] | None = None

    def visitor(self, request: Request) -> Visitor:
        """Who asks, by the cookie; one without a valid one gets a new session."""
        try:
            user, session, mark = self._cookies.loads(request.cookies.get(COOKIE, ""), max_age=LOGIN_S)
        except (BadData, ValueError, TypeError):
            return Visitor("", secrets.token_urlsafe(16), True)
        if session in self._ended or (user and mark != self._mark(user)):
            return Visitor("", secrets.token_urlsafe(16), True)
        return Visitor(user, session, False)

    def admits(self, request: Request, visitor: Visitor) -> bool:
        """Whether this visitor may use the page."""
        if visitor.user:
            return self._roles.operates(visitor.user)
        return not self._always and is_near(request)

    def remember(self, response: Response, visitor: Visitor, secure: bool) -> None:
        """Give the visitor its cookie."""
        value = self._cookies.dumps([visitor.user, visitor.session, self._mark(visitor.user)])
        response.set_cookie(COOKIE, value, max_age=LOGIN_S, httponly=True, samesite="strict", secure=secure, path="/")

    def form_token(self, visitor: Visitor) -> str:
        """What each form of this visitor must bring."""
        return self._forms.get_signature(visitor.session.encode()).decode()

    def is_own_form(self, visitor: Visitor, token: str) -> bool:
        return not visitor.fresh and hmac.compare_digest(self.form_token(visitor).encode(), token.encode())

    async def login(self, address: str, user: str, password: str) -> Visitor | None:
        """A visitor with that name, or None. Raises BusyError before anything is hashed."""
        if not await self.knows(address, user, password, self._roles.operates):
            return None
        return Visitor(user, secrets.token_urlsafe(16), True)

    async def knows(self, address: str, user: str, password: str, may: Callable[[str], bool]) -> bool:
        """Whether these are of a user who ``may``. Raises BusyError before anything is hashed."""
        self._guesses.check(address)
        if self._waiting >= HASHES_WAITING_MAX:
            raise BusyError(1)
        # counted before it is known: many at a time are not told apart from many in a row
        self._guesses.wrong(address)
        self._waiting += 1
        try:
            self._refresh()
            loop = asyncio.get_running_loop()
            right = await loop.run_in_executor(self._pool, self._passwords.verify, user, password.encode())
        finally:
            self._waiting -= 1
        if not (right and may(user)):
            return False
        self._guesses.right(address)
        return True

    async def basic(self, request: Request) -> bool:
        """Whether the request brings name and password of one who may read metrics. Raises BusyError."""
        kind, _, encoded = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "basic":
            return False
        try:
            user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except ValueError:
            return False
        return await self.knows(address_of(request), user, password, self._roles.reads)

    def logout(self, visitor: Visitor) -> None:
        """Its cookie counts no more, whoever kept a copy."""
        self._ended[visitor.session] = None
        if len(self._ended) > ENDED_MAX:
            self._ended.popitem(last=False)

    def has_users(self) -> bool:
        """Whether anybody could log in."""
        self._refresh()
        return any(self._roles.operates(name) for name in self._passwords.names())

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _mark(self, user: str) -> str:
        """Changes with the password, which so ends the logins made with the old one."""
        self._refresh()
        return self._passwords.mark(user) if user else ""

    def _refresh(self) -> None:
        """Read the password file again when it is another."""
        try:
            stat = self._passwords.path.stat()
            at = stat.st_mtime_ns, stat.st_ino
        except OSError:
            at = None
        if at != self._read_at:
            self._read_at = at
            with contextlib.suppress(AuthError):
                self._passwords.reload()


def is_near(request: Request) -> bool:
    """Whether a browser on this machine asks by itself, over a loopback listener.

    A proxy's request comes from here too, but for somebody else; and a page of another site may give its own name the
    address 127.0.0.1, which the Host header tells.
    """
    server = request.scope.get("server") or ("", 0)
    if not is_loopback(address_of(request)) or not is_loopback(str(server[0])):
        return False
    if any(name in request.headers for name in ("forwarded", "via", "x-forwarded-for", "x-real-ip")):
        return False
    host = request.headers.get("host", "")
    name = host[1 : host.find("]")] if host.startswith("[") else host.partition(":")[0]
    return is_loopback(name)


def address_of(request: Request) -> str:
    """Of the peer."""
    return request.client.host if request.client is not None else ""

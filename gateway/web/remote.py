"""POST /api/control: what the control socket answers on this machine, for commands of other machines with a token.

Only over HTTPS, since the token is all that it takes. Questions are for every token, changes for an operator's; what
needs a connection of its own, or the files of this machine, is not offered.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from gateway.settings.file import changed_lines, check, planned, read, write
from gateway.settings.table import SettingsError
from gateway.store.clock import read_clocks
from gateway.tokens import OPERATOR, Holder, Tokens
from gateway.web.access import address_of
from gateway.web.control import NoBrokerError, RefusedError
from gateway.web.guesses import BusyError, Guesses
from gateway.web.site import Site
from gateway.web.times import stamp_of

QUESTIONS: Final = frozenset(
    {"status", "sessions", "session", "uplinks", "doctor", "settings", "sparkplug_nodes", "bans"}
)
CHANGES: Final = frozenset(
    {"remove", "discard", "uplink_pause", "uplink_resume", "sparkplug_rebirth", "reload", "config"}
)
BYTES_MAX: Final = 65_536  # of a request
REQUEST_S: Final = 10.0  # for all of it
BEARER: Final = {"www-authenticate": 'Bearer realm="forebay"'}


@final
class Remote:
    """The handler. ``clock`` gives seconds and only goes forward."""

    def __init__(self, site: Site, tokens: Tokens, clock: Callable[[], float] = time.monotonic) -> None:
        self._site = site
        self._tokens = tokens
        self._guesses = Guesses(clock)
        for line in tokens.damage:
            site.log.warning(line)

    async def control(self, request: Request) -> Response:
        """The answer to one command: its result with 200, or an error for people."""
        if request.url.scheme != "https":
            return _no(403, "only over HTTPS: a token must not be read on its way")
        address = address_of(request)
        try:
            self._guesses.check(address)
        except BusyError as error:
            return _no(429, str(error), {"retry-after": str(error.wait_s)})
        holder = self._holder(request)
        if holder is None:
            self._guesses.wrong(address)
            self._site.log.noise("remote control", f"{address} came for the control without a valid token", "warning")
            return _no(401, "the token is not known here, or was revoked", BEARER)
        self._guesses.right(address)
        try:
            async with asyncio.timeout(REQUEST_S):
                command = await _read(request)
        except TimeoutError:
            return _no(408, "the request takes too long")
        if command is None:
            return _no(400, f"expected a JSON object with a command, of at most {BYTES_MAX} bytes")
        return await self._answer(command, holder, address)

    def _holder(self, request: Request) -> Holder | None:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not token:
            return None
        self._tokens.refresh()
        return self._tokens.holder(token.strip())

    async def _answer(self, command: dict[str, Any], holder: Holder, address: str) -> Response:
        name = command.get("cmd")
        if not isinstance(name, str) or name not in QUESTIONS | CHANGES:
            return _no(404, f"{name}: not offered over HTTPS")
        if name in CHANGES and holder.role != OPERATOR:
            return _no(403, f"the token {holder.name} is {holder.role}: {name} needs one of an {OPERATOR}")
        ask: Callable[[dict[str, Any]], Awaitable[Any]] = self._site.control.ask
        if name == "config":
            ask = self._config
        try:
            result = await ask(command)
        except RefusedError as error:
            return _no(409, str(error))
        except SettingsError as error:
            return _no(422, str(error))
        except NoBrokerError as error:
            return _no(503, str(error))
        if name in CHANGES:
            said = " ".join(str(command[key]) for key in ("client_id", "name", "node") if key in command)
            said = said or ", ".join(command.get("set", ()))
            self._site.log.info(f"{name} {said}".strip() + f" by the token {holder.name} from {address}")
        return JSONResponse({"result": result})

    async def _config(self, command: dict[str, Any]) -> Any:
        """Settings changed in the file and in the broker; null as a value takes one out."""
        path, wanted = self._site.settings.sources.config, command.get("set")
        if path is None:
            raise RefusedError("the broker was started without a settings file: forebay run --config FILE")
        if not isinstance(wanted, dict) or not wanted:
            raise RefusedError("expected settings to change")
        before, after = read(path), planned(path, wanted)
        told: dict[str, Any] = {"file": str(path), "diff": changed_lines(before, after, path), "later": [], "fault": ""}
        if command.get("dry_run"):
            check(path, after)
            return told
        write(path, after, stamp_of(read_clocks().wall_ms))
        try:
            told["later"] = await self._site.control.ask({"cmd": "reload"})
        except (NoBrokerError, RefusedError) as error:
            told["fault"] = str(error)
        return told


async def _read(request: Request) -> dict[str, Any] | None:
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > BYTES_MAX:
                return None
        found = json.loads(body)
    except (ClientDisconnect, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _no(status: int, why: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": why}, status, headers)

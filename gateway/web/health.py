"""Addresses for programs: metrics and health."""

from typing import Final, final

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from gateway.web.access import Access
from gateway.web.control import NoBrokerError
from gateway.web.guesses import BusyError
from gateway.web.metrics import encode
from gateway.web.poll import Poll, Report

REALM: Final = {"www-authenticate": 'Basic realm="forebay", charset="UTF-8"'}


@final
class Health:
    """``anyone``: metrics need no login. ``sessions``: so many have gauges of their own."""

    def __init__(self, access: Access, poll: Poll, anyone: bool, sessions: int) -> None:
        self._access = access
        self._poll = poll
        self._anyone = anyone
        self._sessions = sessions

    async def metrics(self, request: Request) -> Response:
        """GET /metrics."""
        if not self._anyone and not self._access.admits(request, self._access.visitor(request)):
            try:
                if not await self._access.basic(request):
                    return PlainTextResponse("a user and password are needed\n", 401, REALM)
            except BusyError as error:
                return PlainTextResponse(f"{error}\n", 429, {"retry-after": str(error.wait_s)})
        try:
            report = await self._poll.fresh()
        except NoBrokerError as error:
            return PlainTextResponse(f"{error}\n", 503)
        text, content_type = encode(report, request.headers.get("accept", ""), self._sessions)
        return Response(text, headers={"content-type": content_type})

    async def healthz(self, _: Request) -> Response:
        """GET /healthz: the broker answers."""
        try:
            await self._poll.fresh()
        except NoBrokerError as error:
            return JSONResponse({"status": "down", "why": [str(error)]}, 503)
        return JSONResponse({"status": "up"})

    async def readyz(self, _: Request) -> Response:
        """GET /readyz: it takes messages and keeps them."""
        try:
            why = not_ready(await self._poll.fresh())
        except NoBrokerError as error:
            why = [str(error)]
        if why:
            return JSONResponse({"status": "not ready", "why": why}, 503)
        return JSONResponse({"status": "ready"})


def not_ready(report: Report) -> list[str]:
    """What keeps the broker from taking messages that are to be kept; a line each."""
    store = report["status"]["store"]
    why = []
    if store["error"]:
        why.append(f"the disk takes nothing: {store['error']}")
    if store["full"]:
        why.append("the disk budget is used up: publishers are held back")
    return why

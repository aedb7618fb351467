"""Server-sent events: the live part of a page each time it is another, for as long as the page is open."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from gateway.web.site import VIEWS, Site

STREAMS_MAX: Final = 64
QUIET_S: Final = 15.0  # then a line says that the connection stands


async def live(site: Site, request: Request) -> Response:
    """GET /live?view=NAME&id=SUBJECT."""
    name, subject = request.query_params.get("view", ""), request.query_params.get("id", "")
    if name not in VIEWS:
        return PlainTextResponse("no such view\n", 404)
    if site.poll.lookers >= STREAMS_MAX:
        return PlainTextResponse("too many pages are open\n", 503, {"retry-after": "30"})
    return StreamingResponse(_events(site, request, name, subject), media_type="text/event-stream")


async def _events(site: Site, request: Request, name: str, subject: str) -> AsyncIterator[str]:
    sent: dict[str, str] = {}
    site.poll.look()
    try:
        while site.access.admits(request, site.access.visitor(request)):
            number = site.poll.number
            view = await site.view(name, subject)  # first: it may be what asks the broker
            for kind, text in (("state", site.state()), ("view", view)):
                if sent.get(kind) != text:
                    sent[kind] = text
                    yield event(kind, text)
            try:
                await asyncio.wait_for(site.poll.next(number), QUIET_S)
            except TimeoutError:
                yield ":\n\n"
        yield event("bye", "")
    finally:
        site.poll.leave()


def event(kind: str, text: str) -> str:
    """One event as it goes over the wire."""
    lines = "".join(f"data: {line}\n" for line in text.split("\n"))
    return f"event: {kind}\n{lines}\n"

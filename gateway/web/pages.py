"""The pages: who may see them, what is around their live part, and the forms on them."""

import asyncio
import urllib.parse
from collections.abc import Awaitable, Callable
from typing import Any, Final, final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from gateway.web.access import Visitor, address_of
from gateway.web.control import NoBrokerError, RefusedError
from gateway.web.guesses import BusyError
from gateway.web.live import live
from gateway.web.render import TABS
from gateway.web.site import Site

FORM_BYTES_MAX: Final = 262_144
FORM_S: Final = 10.0  # for all of it

Form = dict[str, str]
Page = Callable[[Request, Visitor, Form], Awaitable[Response]]


@final
class Door:
    """Lets in who may come, and takes no form that is not from one of our pages."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def guard(self, page: Page, open: bool = False) -> Callable[[Request], Awaitable[Response]]:
        """``open``: for strangers too."""

        async def guarded(request: Request) -> Response:
            access = self._site.access
            visitor = access.visitor(request)
            if not open and not access.admits(request, visitor):
                if request.method != "GET" or request.url.path == "/live":
                    return PlainTextResponse("log in first\n", 403)
                here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
                return RedirectResponse(f"/login?to={urllib.parse.quote(here)}", 303)
            form: Form = {}
            if request.method == "POST":
                try:
                    async with asyncio.timeout(FORM_S):
                        found = await read_form(request)
                except TimeoutError:
                    return PlainTextResponse("the form takes too long\n", 408)
                if found is None:
                    return PlainTextResponse("the form is too large\n", 413)
                form = found
                if not access.is_own_form(visitor, form.pop("token", "")):
                    return PlainTextResponse("this form is not from here or too old: load the page again\n", 403)
            response = await page(request, visitor, form)
            if visitor.fresh and "set-cookie" not in response.headers:
                access.remember(response, visitor, request.url.scheme == "https")
            return response

        return guarded


async def read_form(request: Request) -> Form | None:
    """The fields of a form, the last of each name; None when it is too large."""
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > FORM_BYTES_MAX:
                return None
    except ClientDisconnect:
        return None
    pairs = urllib.parse.parse_qsl(body.decode(errors="replace"), keep_blank_values=True, max_num_fields=2000)
    return dict(pairs)


@final
class PagesOf:
    """The handlers of a site."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def frame(self, visitor: Visitor, title: str, here: str, **more: Any) -> dict[str, Any]:
        """What every page needs."""
        return {
            "title": title, "heading": title, "lead": "", "notice": "", "above": "", "below": "", "here": here,
            "tabs": TABS, "state": self._site.state(), "user": visitor.user,
            "token": self._site.access.form_token(visitor), **more,
        }  # fmt: skip

    async def _view(
        self, visitor: Visitor, title: str, here: str, view: str, subject: str = "", **more: Any
    ) -> Response:
        made = await self._site.view(view, subject)
        values = self.frame(visitor, title, here, view=view, subject=subject, live=made, **more)
        return HTMLResponse(self._site.pages.page("page", values))

    async def overview(self, _: Request, visitor: Visitor, __: Form) -> Response:
        return await self._view(visitor, "Overview", "/", "overview")

    async def sessions(self, _: Request, visitor: Visitor, __: Form) -> Response:
        lead = "Who has what waiting, the longest queue first."
        above = self._site.pages.fragment("find", {})
        return await self._view(visitor, "Sessions", "/sessions", "sessions", lead=lead, above=above)

    async def session(self, request: Request, visitor: Visitor, _: Form) -> Response:
        client_id = request.query_params.get("id", "")
        below = self._site.pages.fragment("session_end", {"id": client_id})
        return await self._view(visitor, client_id or "(no name)", "/sessions", "session", client_id, below=below)

    async def session_end(self, request: Request, visitor: Visitor, form: Form) -> Response:
        """GET asks, POST does it."""
        client_id = form.get("id", request.query_params.get("id", ""))
        try:
            row = await self._site.control.ask({"cmd": "session", "client_id": client_id})
            if request.method == "POST":
                await self._site.control.ask({"cmd": "remove", "client_id": client_id})
                self._site.log.info(f"session of {client_id} ended from the status page by {who(request, visitor)}")
                return RedirectResponse("/sessions", 303)
        except (NoBrokerError, RefusedError) as error:
            return self._message(visitor, "End a session", "/sessions", str(error), 409)
        values = self.frame(visitor, "End this session?", "/sessions", id=client_id, row=row)
        return HTMLResponse(self._site.pages.page("end", values))

    async def flows(self, _: Request, visitor: Visitor, __: Form) -> Response:
        lead = "Is each flow buffered from publisher to collector, and what to set where it is not."
        return await self._view(visitor, "Flows", "/flows", "flows", lead=lead)

    async def uplinks(self, _: Request, visitor: Visitor, __: Form) -> Response:
        return await self._view(visitor, "Uplinks", "/uplinks", "uplinks", lead="What is forwarded to other brokers.")

    async def sparkplug(self, _: Request, visitor: Visitor, __: Form) -> Response:
        lead = "Edge nodes, what they do when their link fails, and what of theirs may be lost."
        return await self._view(visitor, "Sparkplug nodes", "/sparkplug", "sparkplug", lead=lead)

    async def node(self, request: Request, visitor: Visitor, _: Form) -> Response:
        key = request.query_params.get("id", "")
        asked = "Asked for a rebirth." if "asked" in request.query_params else ""
        below = self._site.pages.fragment("rebirth", {"id": key, "token": self._site.access.form_token(visitor)})
        return await self._view(visitor, key, "/sparkplug", "node", key, notice=asked, below=below)

    async def rebirth(self, request: Request, visitor: Visitor, form: Form) -> Response:
        """POST /node/rebirth."""
        key = form.get("id", "")
        try:
            await self._site.control.ask({"cmd": "sparkplug_rebirth", "node": key})
        except (NoBrokerError, RefusedError) as error:
            return self._message(visitor, "Rebirth", "/sparkplug", str(error), 409)
        self._site.log.info(f"rebirth of {key} asked for from the status page by {who(request, visitor)}")
        return RedirectResponse(f"/node?id={urllib.parse.quote(key)}&asked=1", 303)

    async def log(self, _: Request, visitor: Visitor, __: Form) -> Response:
        return await self._view(visitor, "Log", "/log", "log", lead="The last lines of the broker, the newest first.")

    async def live(self, request: Request, _: Visitor, __: Form) -> Response:
        return await live(self._site, request)

    async def login(self, request: Request, visitor: Visitor, form: Form) -> Response:
        """GET shows the form, POST takes it."""
        to = form.get("to", request.query_params.get("to", "/"))
        if request.method == "GET":
            return self._login_page(visitor, to, "", 200)
        access = self._site.access
        try:
            known = await access.login(address_of(request), form.get("user", ""), form.get("password", ""))
        except BusyError as error:
            return self._login_page(visitor, to, f"{str(error)[:1].upper()}{str(error)[1:]}.", 429)
        if known is None:
            self._site.log.noise("status page", f"{address_of(request)} did not get in to the status page", "warning")
            return self._login_page(visitor, to, "User and password do not fit, or the user is no operator.", 401)
        response = RedirectResponse(own_path(to), 303)
        access.remember(response, known, request.url.scheme == "https")
        return response

    async def logout(self, request: Request, visitor: Visitor, _: Form) -> Response:
        """POST /logout."""
        self._site.access.logout(visitor)
        return RedirectResponse("/", 303)

    def _login_page(self, visitor: Visitor, to: str, fault: str, status: int) -> Response:
        values = {
            "title": "Log in", "user": "", "token": self._site.access.form_token(visitor), "to": own_path(to),
            "fault": fault, "users": self._site.access.has_users(),
        }  # fmt: skip
        return HTMLResponse(self._site.pages.page("login", values), status)

    def _message(self, visitor: Visitor, title: str, here: str, text: str, status: int) -> Response:
        values = self.frame(visitor, title, here, text=text)
        return HTMLResponse(self._site.pages.page("message", values), status)


def own_path(to: str) -> str:
    """A path of this site, whatever the link said."""
    parts = urllib.parse.urlsplit(to.replace("\\", "/"))
    if parts.scheme or parts.netloc or not to.startswith("/") or to.startswith("//") or not to.isprintable():
        return "/"
    return to


def who(request: Request, visitor: Visitor) -> str:
    """For the log."""
    return f"{visitor.user} from {address_of(request)}" if visitor.user else address_of(request)

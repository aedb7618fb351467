"""What the pages share: the broker's answers, the views made of them once for everybody, and the templates."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, final

from markupsafe import Markup

from gateway import profiles
from gateway.doctor.answer import report
from gateway.doctor.snapshot import Ask
from gateway.log import Log
from gateway.profiles import Profile
from gateway.settings.table import Settings
from gateway.web import flows, nodes, views
from gateway.web.access import Access
from gateway.web.control import Control, NoBrokerError, RefusedError
from gateway.web.poll import Poll
from gateway.web.render import Pages
from gateway.web.values import NodeValues

PROFILES_S: Final = 60.0
LOOKED_AT_MAX: Final = 20  # nodes whose values are followed at a time
SHARE: Final = 50  # an answer takes at most a fiftieth of the broker's time

Values = dict[str, Any]


@final
class Site:
    """``control`` is for questions that are not asked each second."""

    def __init__(self, settings: Settings, access: Access, poll: Poll, control: Control, log: Log) -> None:
        self.settings = settings
        self.access = access
        self.poll = poll
        self.control = control
        self.log = log
        self.pages = Pages()
        self._made: dict[tuple[str, str], tuple[int, Markup]] = {}
        self._answers: dict[str, tuple[float, Any]] = {}  # question -> until when it holds, answer
        self._values: dict[str, NodeValues] = {}
        self._profiles: dict[str, Profile] = {}
        self._profiles_until = 0.0

    async def view(self, name: str, subject: str = "") -> Markup:
        """The live part of a page, made once for each report of the broker."""
        number, made = self._made.get((name, subject), (-1, Markup()))
        if number == self.poll.number:
            return made
        number = self.poll.number
        try:
            template, values = await VIEWS[name](self, subject)
            made = self.pages.fragment(f"live/{template}", values)
        except NoBrokerError as error:
            made = self.pages.fragment("live/none", {"why": str(error)})
        except RefusedError as error:
            made = self.pages.fragment("live/none", {"why": str(error)})
        if len(self._made) > 500:
            self._made.clear()
        self._made[name, subject] = number, made
        return made

    def state(self) -> Markup:
        """The line at the top of each page."""
        return self.pages.fragment("live/state", views.state(self.poll.report, self.poll.error))

    async def ask(self, question: dict[str, Any], made: Callable[[Any], Any] | None = None) -> Any:
        """An answer that may be large, not asked for more often than the broker can bear; or what is made of it."""
        key = repr(question)
        until, answer = self._answers.get(key, (0.0, None))
        began = time.monotonic()
        if began < until:
            return answer
        answer = await self.control.ask(question)
        now = time.monotonic()
        if made is not None:
            answer = await asyncio.to_thread(made, answer)
        if len(self._answers) > 100:
            self._answers.clear()
        self._answers[key] = now + max(0.9, SHARE * (now - began)), answer
        return answer

    async def values_of(self, key: str) -> NodeValues:
        """The live values of a node."""
        values = self._values.pop(key, None) or NodeValues(key)
        self._values[key] = values  # the one looked at last is the last to go
        if len(self._values) > LOOKED_AT_MAX:
            del self._values[next(iter(self._values))]
        values.take(await self.control.ask({"cmd": "sparkplug_values", "node": key, "after": values.number}))
        return values

    def known(self) -> dict[str, Profile]:
        """Profiles of devices, ours and those of the data folder."""
        if time.monotonic() >= self._profiles_until:
            self._profiles, _ = profiles.load(self.settings.data_dir / "profiles")
            self._profiles_until = time.monotonic() + PROFILES_S
        return self._profiles


async def _overview(site: Site, _: str) -> tuple[str, Values]:
    return "overview", views.overview(await site.poll.fresh(), site.poll.history)


async def _sessions(site: Site, _: str) -> tuple[str, Values]:
    return "sessions", views.sessions(await site.poll.fresh(), site.poll.history)


async def _session(site: Site, client_id: str) -> tuple[str, Values]:
    row = await site.ask({"cmd": "session", "client_id": client_id})
    return "session", views.session(row, site.poll.history)


async def _flows(site: Site, _: str) -> tuple[str, Values]:
    return "flows", flows.flows(await site.ask({"cmd": "doctor"}, _judged))


def _judged(told: Any) -> Any:
    return report(told, Ask())


async def _uplinks(site: Site, _: str) -> tuple[str, Values]:
    return "uplinks", views.uplinks(await site.poll.fresh())


async def _sparkplug(site: Site, _: str) -> tuple[str, Values]:
    rows = await site.ask({"cmd": "sparkplug_nodes"})
    return "sparkplug", nodes.tree(rows, site.known(), site.settings.bridge_host_id)


async def _node(site: Site, key: str) -> tuple[str, Values]:
    rows = await site.ask({"cmd": "sparkplug_nodes"})
    row = next((row for row in rows if row["node"] == key), None)
    if row is None:
        raise RefusedError(f"{key} was never heard of")
    values = await site.values_of(key)
    return "node", nodes.node(row, site.known(), site.settings.bridge_host_id, values)


async def _log(site: Site, _: str) -> tuple[str, Values]:
    await site.poll.fresh()
    return "log", views.log(site.poll.log)


VIEWS: Final[dict[str, Callable[[Site, str], Awaitable[tuple[str, Values]]]]] = {
    "overview": _overview,
    "sessions": _sessions,
    "session": _session,
    "flows": _flows,
    "uplinks": _uplinks,
    "sparkplug": _sparkplug,
    "node": _node,
    "log": _log,
}

"""The settings on a page: what is in force, and a change of the settings file after a look at what it does."""

import difflib
import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any, Final, final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from gateway.settings.entry import Entry, discreet
from gateway.settings.file import check, planned, read, write
from gateway.settings.kinds import Boolean, Choice
from gateway.settings.table import TABLE, Settings, SettingsError
from gateway.store.clock import read_clocks
from gateway.web.access import Visitor
from gateway.web.control import NoBrokerError, RefusedError
from gateway.web.pages import Form, PagesOf, who
from gateway.web.site import Site
from gateway.web.times import stamp_of

PREFIX: Final = "set."  # of a field's name in the form
HIDDEN: Final = '"***"'  # in place of a password: saved, it would become one
GENERAL: Final = "general"
HERE: Final = "/settings"


@final
class Editing:
    """GET shows, POST /settings/review shows what would change, POST /settings/save changes it."""

    def __init__(self, site: Site, pages: PagesOf) -> None:
        self._site = site
        self._pages = pages

    async def show(self, _: Request, visitor: Visitor, __: Form) -> Response:
        return self._table(visitor, {}, "", 200)

    async def review(self, _: Request, visitor: Visitor, form: Form) -> Response:
        try:
            settings = self._settings()
            changes = asked(form, settings)
            if not changes:
                return self._table(visitor, {}, "Nothing was changed.", 200)
            path = self._path()
            before = read(path)
            after = planned(path, meant(changes))
            own = check(path, after)
        except SettingsError as error:
            return self._table(visitor, form, str(error), 422)
        values = self._pages.frame(
            visitor, "Change these settings?", HERE, file=str(path), changes=json.dumps(changes), base=mark(before),
            diff=diff(before, after), overruled=self._overruled(settings, check(path, before), own, changes),
        )  # fmt: skip
        return HTMLResponse(self._site.pages.page("review", values))

    async def save(self, request: Request, visitor: Visitor, form: Form) -> Response:
        try:
            changes = json.loads(form.get("changes", ""))
            if not isinstance(changes, dict) or not all(isinstance(value, str) for value in changes.values()):
                raise ValueError
            path = self._path()
            before = read(path)
            if mark(before) != form.get("base"):
                raise SettingsError(f"{path}: was changed by somebody else in the meantime; look at it again")
            write(path, planned(path, meant(changes)), stamp_of(read_clocks().wall_ms))
        except ValueError:
            return self._table(visitor, {}, "This form is not from here: load the page again.", 422)
        except SettingsError as error:
            return self._table(visitor, {}, str(error), 409)
        self._site.log.info(f"settings {', '.join(changes)} changed from the status page by {who(request, visitor)}")
        later, fault = [], ""
        try:
            later = await self._site.control.ask({"cmd": "reload"})
        except (NoBrokerError, RefusedError) as error:
            fault = str(error)
        values = self._pages.frame(
            visitor, "Settings changed", HERE, file=str(path), names=list(changes), fault=fault, later=later
        )
        return HTMLResponse(self._site.pages.page("saved", values))

    def _settings(self) -> Settings:
        """As the files and the environment say now. Raises SettingsError."""
        return self._site.settings.reload()

    def _path(self) -> Path:
        path = self._site.settings.sources.config
        if path is None:
            raise SettingsError("the broker was started without a settings file: forebay run --config FILE")
        return path

    def _overruled(self, now: Settings, was: Settings, own: Settings, changes: dict[str, str]) -> list[str]:
        """Settings that the environment or the command line decides, whatever the file says.

        ``was`` and ``own`` are what the file makes with the environment, before and after.
        """
        wanted = {name: TABLE[name].kind.show(TABLE[name].kind.parse(value)) for name, value in meant(changes).items()}
        return [n for n in changes if value_of(own, n) != wanted[n] or value_of(now, n) != value_of(was, n)]

    def _table(self, visitor: Visitor, form: Form, fault: str, status: int) -> Response:
        try:
            settings = self._settings()
        except SettingsError as error:
            settings, fault = self._site.settings, fault or str(error)
        path = self._site.settings.sources.config
        values = self._pages.frame(
            visitor,
            "Settings",
            HERE,
            groups=groups(settings, form),
            fault=fault,
            file="" if path is None else str(path),
        )
        return HTMLResponse(self._site.pages.page("settings", values), status)


def groups(settings: Settings, form: Form) -> list[dict[str, Any]]:
    """The table by the first part of the names; what the form has is shown in place of what is in force."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name, entry in TABLE.items():
        group = name.partition(".")[0] if "." in name else GENERAL
        now = value_of(settings, name)
        default = entry.kind.show(entry.kind.parse(entry.default))
        found.setdefault(group, []).append(
            {
                "name": name, "help": entry.help, "allowed": entry.kind.allowed, "value": now,
                "shown": form.get(PREFIX + name, now), "field": PREFIX + name, "default": default,
                "changed": now != default, "words": words(entry), "secret": HIDDEN in now,
            }
        )  # fmt: skip
    return [
        {"group": group, "settings": rows, "changed": sum(row["changed"] for row in rows)}
        for group, rows in found.items()
    ]


def words(entry: Entry) -> list[str]:
    """The values to choose from, as TOML; none where anything may be written."""
    kind = entry.kind
    if isinstance(kind, Choice):
        return [kind.show(word) for word in kind.words]
    return [kind.show(value) for value in (False, True)] if isinstance(kind, Boolean) else []


def value_of(settings: Settings, name: str) -> str:
    """As TOML."""
    entry = TABLE[name]
    return entry.kind.show(getattr(settings, entry.field))


def asked(form: Form, settings: Settings) -> dict[str, str]:
    """What the form would change."""
    found = {}
    for field, text in form.items():
        name = field.removeprefix(PREFIX)
        if field.startswith(PREFIX) and name in TABLE:
            clean, now = " ".join(text.split("\n")).strip(), value_of(settings, name)
            if clean != now and HIDDEN not in now:
                found[name] = clean
    return found


def meant(changes: dict[str, str]) -> dict[str, object]:
    """The TOML values that the texts are. Raises SettingsError."""
    found: dict[str, object] = {}
    for name, text in changes.items():
        if name not in TABLE:
            raise SettingsError(f"{name} is no setting")
        kind = TABLE[name].kind
        try:
            value = tomllib.loads(f"value = {text}")
            if value.keys() != {"value"}:
                raise ValueError
            kind.parse(value["value"])
        except ValueError:
            raise SettingsError(f"{name} = {discreet(text)}: expected {kind.allowed}") from None
        found[name] = value["value"]
    return found


def diff(before: str, after: str) -> list[dict[str, str]]:
    """Lines with what happened to each: add, del or same; what passwords are is not said."""
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=2, lineterm=""))[2:]
    kinds = {"+": "add", "-": "del"}
    return [{"kind": kinds.get(line[:1], "same"), "text": discreet(line)} for line in lines]


def mark(text: str) -> str:
    """Tells one text of the file from another."""
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()

"""The whole application before a broker that says what it is told to say."""

import io
import time
import urllib.parse
from pathlib import Path
from typing import Any, Self, final

from gateway.access import Access as AccessFile
from gateway.auth import Passwords
from gateway.log import Log
from gateway.net.control import CommandError, ControlProtocol, ControlServer
from gateway.settings.table import Sources, load
from gateway.web.access import COOKIE, Access
from gateway.web.app import application
from gateway.web.control import Control
from gateway.web.poll import Poll
from gateway.web.roles import Roles
from gateway.web.site import Site
from tests.asgi import Said, called
from tests.unit.gateway.web.reports import part, report

FAR = {"client": "10.0.0.5", "server": "10.0.0.1"}


@final
class Rig:
    """Use it as an async context. ``answers`` are the broker's, by command; an exception there is a refusal."""

    def __init__(self, folder: Path, *sets: str, config: str | None = None, broker: bool = True) -> None:
        self.config = folder / "forebay.toml"
        if config is not None:
            self.config.write_text(config)
        sources = Sources(self.config if config is not None else None, (f"data_dir={folder}", *sets))
        settings = load(sources, {})
        self.passwords = Passwords(settings.passwords)
        self.answers: dict[str, Any] = {"report": report(), "reload": []}
        self.asked: list[dict[str, Any]] = []
        self.text = io.StringIO()
        self.cookie = ""
        path = settings.control_socket
        settings.access_file.write_text('[roles]\nann = "operator"\nmonitor = "application"\n')
        roles = Roles(AccessFile(settings.access_file))
        access = Access(self.passwords, roles, b"k" * 32, settings.http_login == "always", time.monotonic)
        self._controls = [Control(path), Control(path)]
        self.site = Site(settings, access, Poll(self._controls[0]), self._controls[1], Log(self.text))
        self.app = application(self.site)
        self._path, self._broker = path, broker
        self._server: ControlServer | None = None

    async def __aenter__(self) -> Self:
        if self._broker:
            self._server = await ControlServer.start(self._path, self._command)
        return self

    async def __aexit__(self, *_: object) -> None:
        await part(self._controls[1])
        await part(self._controls[0], self._server)
        self.site.access.close()

    def _command(self, command: dict[str, Any], _: ControlProtocol) -> Any:
        self.asked.append(command)
        answer = self.answers.get(command["cmd"], CommandError(f"no such command: {command['cmd']}"))
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def get(self, path: str, **more: Any) -> Said:
        return await self._keep(await called(self.app, path, headers=self._headers(more), **more))

    async def post(self, path: str, token: Any = None, form: Any = None, **more: Any) -> Said:
        """With the token that a page has given, unless another is said."""
        unfinished = more.pop("unfinished", False)
        fields = {"token": await self.token(**more) if token is None else token, **(form or {})}
        body = urllib.parse.urlencode(fields).encode()
        return await self._keep(
            await called(self.app, path, body, unfinished, method="POST", headers=self._headers(more), **more)
        )

    async def token(self, **more: Any) -> str:
        """From the login page, which all may see."""
        text = (await self.get("/login", **more)).text
        return text.partition('name="token" value="')[2].partition('"')[0]

    def _headers(self, more: dict[str, Any]) -> dict[str, str]:
        return {**({"cookie": self.cookie} if self.cookie else {}), **more.pop("headers", {})}

    async def _keep(self, said: Said) -> Said:
        cookie = said.headers.get("set-cookie", "")
        if cookie.startswith(COOKIE):
            self.cookie = cookie.partition(";")[0]
        return said

"""The asking side of the control over HTTPS: ``forebay --url https://HOST:PORT --token-file FILE ...``."""

import json
import urllib.parse
from collections.abc import Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, Protocol, final

from gateway.cli import control
from gateway.cli.control import NoBrokerError, RefusedError
from gateway.cli.options import UsageError, settings_from
from gateway.hosts import is_host
from gateway.net.tls import TlsError, client_context

COMMANDS: Final = (
    *("status", "doctor", "sessions list", "sessions show", "sessions remove", "queue drop"),
    *("uplink list", "uplink pause", "uplink resume", "uplink drain", "sparkplug nodes", "sparkplug rebirth"),
    *("config show", "config get", "config set", "config unset", "user bans"),
)
PATH: Final = "/api/control"
TOKEN_BYTES_MAX: Final = 4096
ANSWER_BYTES_MAX: Final = 67_108_864
_TIMEOUT_S: Final = 10.0


class Broker(Protocol):
    """Whom a command asks."""

    def ask(self, request: dict[str, Any]) -> Any:
        """The result of one request. Raises NoBrokerError or RefusedError."""


@final
class Local:
    """The broker behind a control socket."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def ask(self, request: dict[str, Any]) -> Any:
        return control.ask(self._path, request)


@final
class Remote:
    """The gateway at an address; each question is a connection of its own."""

    def __init__(self, url: str, token_file: Path | None, ca: Path | None) -> None:
        """``ca``: only certificates that it signed are taken; None: those of whom the system trusts.

        Raises UsageError.
        """
        self._host, self._port = _address(url)
        if token_file is None:
            raise UsageError("--url: expected --token-file FILE as well; forebay token add makes a token over there")
        self._token = _token(token_file)
        try:
            self._tls = client_context(ca, None, None)
        except TlsError as error:
            raise UsageError(f"--ca: {error}") from None

    def ask(self, request: dict[str, Any]) -> Any:
        import http.client

        link = http.client.HTTPSConnection(self._host, self._port, timeout=_TIMEOUT_S, context=self._tls)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        where = f"https://{self._host}:{self._port}"
        try:
            link.request("POST", PATH, json.dumps(request).encode(), headers)
            answer = link.getresponse()
            body = answer.read(ANSWER_BYTES_MAX)
        except (OSError, http.client.HTTPException) as error:  # ssl.SSLError is an OSError
            raise NoBrokerError(f"{where}: {_why(error)}") from None
        finally:
            link.close()
        told = _told(body)
        if answer.status == 200 and "result" in told:
            return told["result"]
        why = f"{where}: {told.get('error') or f'no gateway of ours: it answered {answer.status}'}"
        raise NoBrokerError(why) if answer.status == 503 else RefusedError(why)


_chosen: ContextVar[Remote | None] = ContextVar("remote", default=None)


def choose(remote: Remote | None) -> None:
    """For the command that follows."""
    _chosen.set(remote)


def broker_at(config: Path | None, data_dir: str | None) -> Broker:
    """The broker that ``--url`` names, else that of the data folder. Raises SettingsError."""
    remote = _chosen.get()
    return remote if remote is not None else Local(settings_from(config, data_dir).control_socket)


def is_remote() -> bool:
    """``--url`` was given."""
    return _chosen.get() is not None


def check_command(words: Sequence[str]) -> None:
    """Raises UsageError for a command that works on this machine only."""
    shown = " ".join(words)
    if shown not in COMMANDS:
        raise UsageError(f"--url: forebay {shown} is for the machine itself; over HTTPS go {', '.join(COMMANDS)}")


def _address(url: str) -> tuple[str, int]:
    expected = UsageError(f"--url {url}: expected https://HOST:PORT")
    try:
        parts = urllib.parse.urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise expected from None
    if (
        parts.scheme != "https"
        or not host
        or not is_host(host)
        or parts.path.strip("/")
        or parts.query
        or parts.username is not None
    ):
        raise expected
    return host, port or 443


def _token(file: Path) -> str:
    try:
        with file.open("rb") as source:
            mode = file.stat().st_mode
            text = source.read(TOKEN_BYTES_MAX).partition(b"\n")[0].strip()
    except OSError as error:
        raise UsageError(f"--token-file {file}: cannot be read: {error.strerror}") from None
    if mode & 0o077:
        raise UsageError(f"--token-file {file}: others can read it too: expected mode 600 (chmod 600 {file})")
    if not text or not text.isascii() or not text.decode().isprintable():
        raise UsageError(f"--token-file {file}: expected a token on its first line, as forebay token add prints it")
    return text.decode()


def _told(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _why(error: Exception) -> str:
    """A certificate's fault in words, else what the system says."""
    return str(getattr(error, "verify_message", "") or getattr(error, "strerror", "") or error or "no answer")

"""All listening sockets of a broker: opened from the settings, and changed with them and with the certificate files."""

import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

from gateway.core.meter import Bucket
from gateway.log import Log
from gateway.net.connection import Turn
from gateway.net.listeners import MTLS, TCP, TLS, UNIX, WS, WSS, Listener, address_text, bind, bind_unix
from gateway.net.throttle import Throttle, network_of
from gateway.net.tls import Files, Stamp, TlsError
from gateway.settings.table import Settings
from gateway.systemd import Handed

POLL_MS: Final = 1000  # between two looks at the certificate files

Contexts = dict[str, ssl.SSLContext]
"""By kind of listener."""


@final
class Listeners:
    """In the order: ``bind``, ``open``, ``apply``, ``start``, ``close``."""

    def __init__(self, log: Log) -> None:
        self.all: list[Listener] = []
        self._log = log
        self._bound: list[tuple[str, socket.socket, Path | None, bool]] = []
        self._files: Files | None = None
        self._tried: Stamp = ()  # the files as they were last read
        self._seen: Stamp = ()  # as they were at the last look
        self._look_at = 0
        self._arrivals = Throttle(0, 1)
        self._banned: Callable[[str], bool]
        self._turn: Turn

    def bind(self, settings: Settings, handed: Handed) -> None:
        """Take the addresses; nobody is accepted yet. Raises ListenError.

        Sockets that were handed over count by their address, or else by a name that is a way in, whatever the settings
        say: so a port below 1024 can be served without a privilege.
        """
        ways = [(TCP, settings.listen), (TLS, settings.listeners_tls), (MTLS, settings.listeners_mtls)]
        ways += [(WS, settings.listeners_ws), (WSS, settings.listeners_wss)]
        for kind, addresses in ways:
            for host, port in addresses:
                self._bound += [(kind, sock, None, False) for sock in bind(host, port, handed)]
        path = settings.listeners_unix
        if path is not None:
            given = handed.take(socket.AF_UNIX, str(path))
            self._bound.append((UNIX, given or bind_unix(path, settings.listeners_unix_mode), path, given is not None))
        for kind, _ in ways:
            self._bound += [(kind, sock, None, False) for sock in handed.named(kind)]
        for address in handed.left():
            text = address_text(*address[:2]) if isinstance(address, tuple) else address
            self._log.warning(f"{text} was opened by systemd and nobody serves it: no setting has that address")

    def open(self, turn: Turn, banned: Callable[[str], bool]) -> None:
        """``banned(host)`` says from where nobody comes in."""
        self._turn, self._banned = turn, banned
        self.all = [Listener(sock, turn, self._log, kind, path, kept) for kind, sock, path, kept in self._bound]
        for listener in self.all:
            listener.refuses = self._refuses

    def read(self, settings: Settings) -> Contexts:
        """What the certificate files hold now, where a listener needs it. Raises TlsError."""
        files = self._files_of(settings)
        self._tried = self._seen = () if files is None else files.stamp()
        return {} if files is None else self._contexts(files)

    def apply(self, settings: Settings, users: bool, contexts: Contexts) -> None:
        """Take the settings over for the connections that come next; ``users``: there is a password file."""
        self._files = self._files_of(settings)
        if (self._arrivals.count, self._arrivals.seconds) != (settings.address_connection_rate, 1):
            self._arrivals = Throttle(settings.address_connection_rate, 1)
        rate = settings.connection_rate
        for listener in self.all:
            listener.bucket = Bucket(rate, 1, self._turn.now()) if rate else None
            listener.origins = settings.websocket_origins
            listener.anonymous = settings.allow_anonymous == "true" or (
                settings.allow_anonymous == "auto" and listener.local
            )
            by_certificate = listener.secure and settings.tls_client_ca and settings.tls_certificate_user != "off"
            if not users and not listener.anonymous and not by_certificate:
                self._log.warning(f"{listener} admits nobody: no users in {settings.passwords} (forebay user add NAME)")
        self._put(contexts)

    def start(self) -> None:
        """Accept from now on. Raises ListenError."""
        for listener in self.all:
            listener.start()

    def close(self) -> None:
        for listener in self.all:
            listener.close()

    def look(self, now: int) -> None:
        """Certificate files that have changed, and are not being written any more, count from now on.

        What is wrong with them is told once, and those of before stay in force.
        """
        files = self._files
        if files is None or now < self._look_at:
            return
        self._look_at = now + POLL_MS
        stamp = files.stamp()
        if stamp == self._tried:
            return
        if stamp != self._seen:
            self._seen = stamp
            return
        self._tried = stamp
        try:
            contexts = self._contexts(files)
        except TlsError as e:
            self._log.error(f"{e}; TLS goes on with the files of before")
            return
        self._put(contexts)
        self._log.info("certificate files have changed: new connections get the new ones")

    def _contexts(self, files: Files) -> Contexts:
        asked = files.context()
        if not any(listener.kind == MTLS for listener in self.all):
            return {TLS: asked, WSS: asked}
        return {TLS: asked, WSS: asked, MTLS: files.context(required=True)}

    def _put(self, contexts: Contexts) -> None:
        for listener in self.all:
            if listener.kind in contexts:
                listener.tls = contexts[listener.kind]

    def _refuses(self, host: str) -> str:
        if self._banned(host):
            return "banned"
        now, address = self._turn.now(), network_of(host)
        if self._arrivals.is_spent(address, now):
            return "too many connections from there"
        self._arrivals.spend(address, now)
        return ""

    def _files_of(self, settings: Settings) -> Files | None:
        """None where no listener needs them."""
        if settings.tls_cert is None or settings.tls_key is None:
            return None
        if not any(listener.secure for listener in self.all):
            return None
        return Files(
            settings.tls_cert, settings.tls_key, settings.tls_client_ca, settings.tls_crl, settings.tls_min_version
        )

"""The HTTP server: uvicorn on sockets of our own, its TLS certificate read again when it changes."""

import asyncio
import contextlib
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from gateway.log import Log
from gateway.net.listeners import ListenError, address_text, bind, is_loopback
from gateway.net.tls import TlsError, server_context
from gateway.settings.table import Settings

HEAD_S: Final = 10.0  # for the first request to be there
CONNECTIONS_MAX: Final = 256
HEAD_BYTES_MAX: Final = 16_384
AGAIN_S: Final = 2.0  # a broker that was killed may have left its page at the address for a moment
CERTIFICATE_S: Final = 2.0
LEAVE_S: Final = 1  # for answers under way at the end


@final
class Protocol(H11Protocol):
    """Closes a connection on which no request comes: each is a descriptor."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        asyncio.get_running_loop().call_later(HEAD_S, self._check, transport)

    def _check(self, transport: asyncio.Transport) -> None:
        request: object = self.cycle
        if request is None and not transport.is_closing():
            transport.close()


@final
class Server(uvicorn.Server):
    """Signals are the process's own: it has several servers."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@final
class Serving:
    """The listeners of the settings; plain ones and those with TLS have a server each."""

    def __init__(self, settings: Settings, app: ASGIApp, log: Log) -> None:
        """Raises TlsError."""
        self._settings = settings
        self._log = log
        self._servers: list[tuple[Server, list[tuple[str, int]], str]] = []
        self.context: ssl.SSLContext | None = None
        if settings.http_listen:
            self._servers.append((Server(self._config(app)), settings.http_listen, "http"))
        if settings.http_listen_tls:
            self.context = self._load_context()
            config = self._config(app)
            config.load()
            config.ssl = self.context
            self._servers.append((Server(config), settings.http_listen_tls, "https"))

    def _config(self, app: ASGIApp) -> uvicorn.Config:
        return uvicorn.Config(
            app, http=Protocol, ws="none", lifespan="off", log_config=None, access_log=False, server_header=False,
            proxy_headers=False, date_header=True, limit_concurrency=CONNECTIONS_MAX,
            h11_max_incomplete_event_size=HEAD_BYTES_MAX, timeout_graceful_shutdown=LEAVE_S,
        )  # fmt: skip

    def _load_context(self) -> ssl.SSLContext:
        cert, key = self._settings.tls_cert, self._settings.tls_key
        assert cert is not None and key is not None
        return server_context(cert, key, self._settings.tls_min_version)

    async def run(self, stopping: asyncio.Event) -> None:
        """Serve until told to stop."""
        tasks = [asyncio.create_task(self._serve(*each, stopping)) for each in self._servers]
        if self.context is not None:
            tasks.append(asyncio.create_task(self._watch_certificate(self.context)))
        await stopping.wait()
        for server, _, _ in self._servers:
            server.should_exit = True
        for task in tasks[len(self._servers) :]:
            task.cancel()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), LEAVE_S + 1)

    async def _serve(
        self, server: Server, addresses: list[tuple[str, int]], scheme: str, stopping: asyncio.Event
    ) -> None:
        sockets: list[Any] = []
        told = False
        for host, port in addresses:
            while not stopping.is_set():
                try:
                    sockets += bind(host, port)
                    break
                except ListenError as error:
                    if not told:
                        self._log.error(f"{scheme}: {error}; trying again")
                        told = True
                    await asyncio.sleep(AGAIN_S)
        if stopping.is_set():
            return
        for sock in sockets:
            host, port = sock.getsockname()[:2]
            self._log.info(f"status page and metrics at {scheme}://{address_text(host, port)}/")
            if scheme == "http" and not is_loopback(host):
                self._log.warning(f"{address_text(host, port)} is not encrypted: logins can be read on the way there")
        await server.serve(sockets)

    async def _watch_certificate(self, context: ssl.SSLContext) -> None:
        """A renewed certificate serves the handshakes that come next; what is wrong with one is said once."""
        cert, key = self._settings.tls_cert, self._settings.tls_key
        assert cert is not None and key is not None
        seen = list(_stamps(cert, key))
        while True:
            await asyncio.sleep(CERTIFICATE_S)
            now = list(_stamps(cert, key))
            if now == seen:
                continue
            seen = now
            try:
                self._load_context()  # sound, before the one in use is touched
                context.load_cert_chain(cert, key)
                self._log.info(f"certificate {cert} read again")
            except (TlsError, OSError) as error:
                self._log.error(f"{error}; the certificate of before stays")


def _stamps(*paths: Path) -> Iterator[tuple[int, int]]:
    for path in paths:
        try:
            stat = path.stat()
            yield stat.st_mtime_ns, stat.st_ino
        except OSError:
            yield 0, 0

"""The HTTP server: sockets, certificates, connections that bring no request."""

import asyncio
import io
import socket
import ssl
from pathlib import Path

import pytest
import trustme
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from gateway.log import Log
from gateway.net.tls import TlsError
from gateway.settings.table import Settings, Sources, load
from gateway.web import serving
from gateway.web.serving import Serving
from tests.harness import free_port
from tests.page import Page, until

APP = Starlette(routes=[Route("/healthz", PlainTextResponse("up"))])


def certify(folder: Path, *names: str) -> trustme.CA:
    ca = trustme.CA()
    certificate = ca.issue_cert(*names)
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    chain = b"".join(part.bytes() for part in certificate.cert_chain_pems)
    (folder / "cert.pem").write_bytes(chain)
    return ca


def trusting(ca: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    ca.configure_trust(context)
    return context


def settings(folder: Path, *sets: str) -> Settings:
    tls = (f"tls.cert={folder / 'cert.pem'}", f"tls.key={folder / 'key.pem'}")
    return load(Sources(sets=(f"data_dir={folder}", *tls, *sets)), {})


class Running:
    def __init__(self, given: Settings) -> None:
        self.text = io.StringIO()
        self.serving = Serving(given, APP, Log(self.text))
        self.stopping = asyncio.Event()

    async def __aenter__(self) -> "Running":
        self.task = asyncio.create_task(self.serving.run(self.stopping))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stopping.set()
        await asyncio.wait_for(self.task, 60)


async def answer(page: Page) -> str:
    async with asyncio.timeout(60):
        while True:
            try:
                return (await asyncio.to_thread(page.get, "/healthz")).text
            except ConnectionError:
                await asyncio.sleep(0.02)


async def test_plain_and_tls_at_once(tmp_path: Path) -> None:
    ca = certify(tmp_path, "127.0.0.1")
    plain, secure = free_port(), free_port()
    given = settings(tmp_path, f"http.listen=127.0.0.1:{plain}", f"http.listen_tls=127.0.0.1:{secure}")
    async with Running(given) as running:
        assert await answer(Page(plain)) == "up"
        assert await answer(Page(secure, trusting(ca))) == "up"
        assert f"https://127.0.0.1:{secure}/" in running.text.getvalue()


async def test_a_renewed_certificate_serves_the_next_handshake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "CERTIFICATE_S", 0.02)
    first = certify(tmp_path, "127.0.0.1")
    port = free_port()
    async with Running(settings(tmp_path, f"http.listen_tls=127.0.0.1:{port}")) as running:
        assert await answer(Page(port, trusting(first))) == "up"
        (tmp_path / "cert.pem").write_bytes(b"nonsense")
        await until(lambda: "the certificate of before stays" in running.text.getvalue(), "not told")
        other = certify(tmp_path, "127.0.0.1")
        await until(lambda: "read again" in running.text.getvalue(), "not told")
        assert await answer(Page(port, trusting(other))) == "up"


def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    certify(tmp_path, "127.0.0.1")
    (tmp_path / "cert.pem").write_bytes(b"nonsense")
    with pytest.raises(TlsError, match=r"cert\.pem"):
        Serving(settings(tmp_path, "http.listen_tls=127.0.0.1:0"), APP, Log(io.StringIO()))


async def test_an_address_in_use_is_told_once_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "AGAIN_S", 0.02)
    certify(tmp_path, "127.0.0.1")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        running = Running(settings(tmp_path, f"http.listen=127.0.0.1:{port}"))
        await running.__aenter__()
        await until(lambda: "Address already in use" in running.text.getvalue(), "not told")
        await asyncio.sleep(0.1)
    assert await answer(Page(port)) == "up"
    assert running.text.getvalue().count("trying again") == 1
    await running.__aexit__()


async def test_it_can_stop_while_it_waits_for_an_address(tmp_path: Path) -> None:
    certify(tmp_path, "127.0.0.1")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        async with Running(settings(tmp_path, f"http.listen=127.0.0.1:{taken.getsockname()[1]}")) as running:
            await until(lambda: "trying again" in running.text.getvalue(), "not told")


async def test_a_connection_without_a_request_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "HEAD_S", 0.05)
    certify(tmp_path, "127.0.0.1")
    port = free_port()
    async with Running(settings(tmp_path, f"http.listen=127.0.0.1:{port}")):
        assert await answer(Page(port)) == "up"
        for said in (b"", b"GET / HTTP/1.1\r\nHost: x\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(said)
            assert await asyncio.wait_for(reader.read(), 60) == b""
            writer.close()


async def test_a_listener_that_others_reach_without_tls_is_warned_of(tmp_path: Path) -> None:
    certify(tmp_path, "127.0.0.1")
    port = free_port()
    async with Running(settings(tmp_path, f"http.listen=0.0.0.0:{port}")) as running:
        assert await answer(Page(port)) == "up"
        assert f"0.0.0.0:{port} is not encrypted" in running.text.getvalue()

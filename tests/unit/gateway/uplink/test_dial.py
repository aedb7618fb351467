"""From an address to an open connection, and the step that each failure is named by."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from gateway.settings.uplink import UplinkRow, parsed
from gateway.uplink.dial import DialError, Held, dial, why
from tests.harness import free_port
from tests.unit.gateway.uplink.conftest import Start, server_tls


def row(address: str, **keys: Any) -> UplinkRow:
    rules = [{"direction": "out", "filter": "#"}]
    return parsed({"name": "u", "addresses": [address], "rules": rules, **keys}, "")


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1000):
        writer.write(data)


class User(asyncio.Protocol):
    """Whoever takes a held connection over."""

    def __init__(self) -> None:
        self.transport: asyncio.BaseTransport | None = None
        self.data = b""
        self.ended = asyncio.Event()
        self.came = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.came.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


async def opened(address: str, **keys: Any) -> tuple[Held, list[tuple[str, str]]]:
    made = row(address, **keys)
    steps: list[tuple[str, str]] = []
    held = await dial(made, made.addresses[0], lambda step, what: steps.append((step, what)))
    return held, steps


async def failure(address: str, **keys: Any) -> DialError:
    with pytest.raises(DialError) as caught:
        await opened(address, **keys)
    assert "\n" not in str(caught.value)
    return caught.value


async def exchanged(held: Held) -> None:
    """What is written comes back."""
    user = User()
    held.take(user)
    assert held.transport is not None
    held.transport.write(b"hello")
    await asyncio.wait_for(user.came.wait(), 60)
    assert user.data == b"hello"
    held.close()
    await asyncio.wait_for(user.ended.wait(), 60)


async def test_tcp(start: Start) -> None:
    port = await start(echo)
    held, steps = await opened(f"mqtt://127.0.0.1:{port}")
    assert steps == [("DNS", "127.0.0.1"), ("TCP", f"127.0.0.1 port {port}")]
    await exchanged(held)


async def test_what_came_before_it_was_taken_is_not_lost(start: Start) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"early")

    held, _ = await opened(f"mqtt://127.0.0.1:{await start(greet)}")
    async with asyncio.timeout(60):
        while not held.lost:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    user = User()
    held.take(user)
    assert user.data == b"early"
    assert user.ended.is_set()


async def test_nobody_listens() -> None:
    port = free_port()
    error = await failure(f"mqtt://127.0.0.1:{port}")
    assert str(error) == f"TCP: 127.0.0.1 port {port}: Connection refused"
    assert not error.refused


async def test_a_name_that_is_none() -> None:
    error = await failure("mqtt://no-such-host.invalid")
    assert error.step == "DNS"
    assert not error.refused, "the name server may be what is missing"


async def test_tls_tells_version_and_name(start: Start, ca: trustme.CA, tmp_path: Path) -> None:
    port = await start(echo, server_tls(ca))
    held, steps = await opened(f"mqtts://localhost:{port}", ca=str(tmp_path / "ca.pem"))
    assert steps[2][0] == "TLS"
    assert steps[2][1].startswith("TLSv1.3")
    await exchanged(held)


async def test_a_certificate_of_somebody_else_is_refused(start: Start, ca: trustme.CA, tmp_path: Path) -> None:
    port = await start(echo, server_tls(ca, "other.example"))
    error = await failure(f"mqtts://localhost:{port}", ca=str(tmp_path / "ca.pem"))
    assert error.step == "TLS"
    assert "certificate is refused" in error.why
    assert error.refused
    held, _ = await opened(f"mqtts://localhost:{port}", ca=str(tmp_path / "ca.pem"), server_name="other.example")
    await exchanged(held)
    held, _ = await opened(f"mqtts://localhost:{port}", insecure=True)
    await exchanged(held)


async def test_a_client_certificate_is_shown(start: Start, ca: trustme.CA, tmp_path: Path) -> None:
    context = server_tls(ca)
    context.verify_mode = ssl.CERT_REQUIRED
    ca.configure_trust(context)
    mine = ca.issue_cert("gateway")
    mine.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    mine.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    port = await start(echo, context)
    files = {name: str(tmp_path / f"{name}.pem") for name in ("ca", "cert", "key")}
    await exchanged((await opened(f"mqtts://localhost:{port}", **files))[0])


@pytest.mark.parametrize("broken", ["ca", "cert", "key"])
async def test_a_broken_file_is_named(ca: trustme.CA, tmp_path: Path, broken: str) -> None:
    mine = ca.issue_cert("gateway")
    mine.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    mine.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    files = {name: str(tmp_path / f"{name}.pem") for name in ("ca", "cert", "key")}
    for content in ("nonsense", None):
        if content is None:
            (tmp_path / f"{broken}.pem").unlink()
        else:
            (tmp_path / f"{broken}.pem").write_text(content)
        error = await failure("mqtts://localhost:1", **files)
        assert error.step == "TLS"
        assert error.refused
        assert f"{broken}.pem" in error.why


async def test_no_tls_at_the_other_end(start: Start) -> None:
    async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    error = await failure(f"mqtts://localhost:{await start(rude)}")
    assert error.step == "TLS"


async def test_alpn_is_offered(start: Start, ca: trustme.CA, tmp_path: Path) -> None:
    context = server_tls(ca)
    context.set_alpn_protocols(["x-amzn-mqtt-ca"])
    port = await start(echo, context)
    held, _ = await opened(f"mqtts://localhost:{port}", ca=str(tmp_path / "ca.pem"), alpn=["x-amzn-mqtt-ca"])
    assert held.transport is not None
    assert held.transport.get_extra_info("ssl_object").selected_alpn_protocol() == "x-amzn-mqtt-ca"
    held.close()


def test_errors_are_one_line() -> None:
    assert why(TimeoutError()) == "no answer within 10 s"
    assert why(ConnectionResetError(104, "Connection reset by peer")) == "Connection reset by peer"
    assert why(ValueError("a\nb")) == "a b"
    assert why(ValueError()) == "ValueError"

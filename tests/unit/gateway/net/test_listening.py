"""The sockets of a broker as the settings ask for them, and certificate files that change."""

import asyncio
import io
import os
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from gateway.core.limits import Limits
from gateway.core.router import Router
from gateway.log import Log
from gateway.net.connection import Turn
from gateway.net.listening import POLL_MS, Listeners
from gateway.net.tls import TlsError
from gateway.settings.table import Settings, Sources, load
from gateway.systemd import Handed


class Rig:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 0
        loop = asyncio.get_running_loop()
        router = Router(Limits(), None, 0, 1)
        self.turn = Turn(router, lambda: self.now, loop.call_soon, lambda now: None, lambda peer, error: None)
        self.text = io.StringIO()
        self.listeners = Listeners(Log(self.text))
        self.authority = trustme.CA()
        self.renew()
        self.authority.cert_pem.write_to_path(str(folder / "ca.pem"))

    def renew(self) -> None:
        made = self.authority.issue_cert("localhost")
        (self.folder / "cert.pem").write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
        (self.folder / "key.pem").write_bytes(made.private_key_pem.bytes())

    def settings(self, *sets: str) -> Settings:
        files = (f"tls.{name}={self.folder / file}.pem" for name, file in (("cert", "cert"), ("key", "key")))
        return load(Sources(sets=(*files, f"data_dir={self.folder}", "listen=127.0.0.1:0", *sets)), {})

    def open(self, *sets: str, users: bool = False) -> Settings:
        settings = self.settings(*sets)
        self.listeners.bind(settings, Handed([]))
        self.listeners.open(self.turn, lambda host: host == "10.0.0.9")
        self.listeners.apply(settings, users, self.listeners.read(settings))
        return settings

    def look(self) -> None:
        """Twice: what changes between two looks is still being written."""
        for _ in range(2):
            self.now += POLL_MS
            self.listeners.look(self.now)

    def contexts(self) -> dict[str, ssl.SSLContext | None]:
        return {listener.kind: listener.tls for listener in self.listeners.all}


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path)
    yield made
    made.listeners.close()


ALL = (
    *("listeners.tls=127.0.0.1:0", "listeners.mtls=127.0.0.1:0", "listeners.ws=127.0.0.1:0"),
    "listeners.wss=127.0.0.1:0",
)


async def test_every_way_in(rig: Rig) -> None:
    rig.open(*ALL, f"listeners.unix={rig.folder}/m.sock", f"tls.client_ca={rig.folder}/ca.pem")
    found = rig.contexts()
    assert list(found) == ["tcp", "tls", "mtls", "ws", "wss", "unix"]
    assert [kind for kind, context in found.items() if context is not None] == ["tls", "mtls", "wss"]
    tls, mtls = found["tls"], found["mtls"]
    assert tls is not None
    assert mtls is not None
    assert (tls.verify_mode, mtls.verify_mode) == (ssl.CERT_OPTIONAL, ssl.CERT_REQUIRED)
    assert len({str(listener) for listener in rig.listeners.all}) == 6


async def test_who_needs_no_name(rig: Rig) -> None:
    rig.open("listen=127.0.0.1:0,0.0.0.0:0", f"listeners.unix={rig.folder}/m.sock")
    assert [listener.anonymous for listener in rig.listeners.all] == [True, False, True]
    assert rig.text.getvalue().count("admits nobody") == 1
    rig.listeners.apply(rig.settings("allow_anonymous=false"), True, {})
    assert not any(listener.anonymous for listener in rig.listeners.all)
    assert rig.text.getvalue().count("admits nobody") == 1


async def test_certificates_are_a_way_in_without_users(rig: Rig) -> None:
    rig.open("listen=", "listeners.mtls=0.0.0.0:0", f"tls.client_ca={rig.folder}/ca.pem")
    assert "admits nobody" not in rig.text.getvalue()
    rig.listeners.apply(rig.settings("tls.certificate_user=off"), False, {})
    assert rig.text.getvalue().count("admits nobody") == 1


async def test_renewed_files_count_for_the_next_connections(rig: Rig) -> None:
    rig.open(*ALL, f"tls.client_ca={rig.folder}/ca.pem")
    before = rig.contexts()
    rig.look()
    assert rig.contexts() == before
    rig.renew()
    rig.look()
    after = rig.contexts()
    assert all(after[kind] is not before[kind] for kind in ("tls", "mtls", "wss"))
    assert "new connections get the new ones" in rig.text.getvalue()
    trustme.CA().cert_pem.write_to_path(str(rig.folder / "ca.pem"))
    rig.look()
    assert rig.contexts()["mtls"] is not after["mtls"]


async def test_a_file_that_is_being_written_is_left_alone(rig: Rig) -> None:
    rig.open(*ALL[:1])
    before = rig.contexts()
    for size in (10, 20, 30):
        (rig.folder / "cert.pem").write_bytes(b"x" * size)
        rig.now += POLL_MS
        rig.listeners.look(rig.now)
    assert rig.text.getvalue() == ""
    rig.renew()
    rig.look()
    assert rig.contexts() != before


async def test_bad_files_are_told_once_and_those_of_before_stay(rig: Rig) -> None:
    rig.open(*ALL[:1])
    before = rig.contexts()
    (rig.folder / "key.pem").write_text("broken")
    for _ in range(3):
        rig.look()
    assert rig.contexts() == before
    assert rig.text.getvalue().count("ERROR TLS certificate") == 1
    assert "goes on with the files of before" in rig.text.getvalue()
    os.unlink(rig.folder / "key.pem")
    rig.look()
    assert rig.contexts() == before
    rig.renew()
    rig.look()
    assert rig.contexts() != before


async def test_bad_files_at_the_start_leave_the_others_serving(rig: Rig) -> None:
    (rig.folder / "key.pem").write_text("broken")
    settings = rig.settings(*ALL[:1])
    rig.listeners.bind(settings, Handed([]))
    rig.listeners.open(rig.turn, lambda host: False)
    with pytest.raises(TlsError):
        rig.listeners.read(settings)
    rig.listeners.apply(settings, False, {})
    rig.listeners.start()
    assert rig.contexts() == {"tcp": None, "tls": None}
    rig.renew()
    rig.look()
    assert rig.contexts()["tls"] is not None


async def test_rates_and_bans_of_addresses(rig: Rig) -> None:
    settings = rig.open("address_connection_rate=2")
    (listener,) = rig.listeners.all
    assert [listener.refuses("10.0.0.1") for _ in range(3)] == ["", "", "too many connections from there"]
    assert listener.refuses("10.0.0.2") == ""
    assert listener.refuses("10.0.0.9") == "banned"
    assert listener.bucket is None
    rig.listeners.apply(settings, False, {})
    assert listener.refuses("10.0.0.1"), "what was counted still counts after a reload"
    rig.listeners.apply(rig.settings("connection_rate=5"), False, {})
    assert listener.refuses("10.0.0.1") == ""
    assert listener.bucket is not None


def listening(family: int, address: tuple[str, int] | str) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.bind(address)
    sock.listen()
    return sock


async def test_sockets_that_were_handed_over_are_taken_by_address_and_by_name(rig: Rig) -> None:
    path = str(rig.folder / "sock")
    given = [listening(socket.AF_INET, ("127.0.0.1", 0)) for _ in range(3)]
    given.append(listening(socket.AF_UNIX, path))
    ports = [sock.getsockname()[1] for sock in given[:3]]
    settings = rig.settings(f"listen=127.0.0.1:{ports[0]}", f"listeners.unix={path}")
    names = ("forebay.socket", "tls", "other", "forebay.socket")
    rig.listeners.bind(settings, Handed(list(zip(names, given, strict=True))))
    rig.listeners.open(rig.turn, lambda host: False)
    assert [str(one) for one in rig.listeners.all] == [f"127.0.0.1:{ports[0]}", path, f"127.0.0.1:{ports[1]} (TLS)"]
    assert f"127.0.0.1:{ports[2]} was opened by systemd and nobody serves it" in rig.text.getvalue()
    rig.listeners.apply(settings, False, rig.listeners.read(settings))
    assert rig.contexts()["tls"] is not None, "a listener that no setting names has no certificate"
    rig.listeners.start()
    rig.listeners.close()
    assert "sock" in os.listdir(rig.folder), "the next process will be handed the same socket"
    given[2].close()

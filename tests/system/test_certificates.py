"""A plant changes its authority while everything runs: old one, both, new one; a link of before goes on publishing."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from gateway.certificates import Authority
from gateway.net.listening import POLL_MS
from gateway.store.clock import read_clocks
from gateway.web.serving import CERTIFICATE_S
from tests import wire_format as mqtt
from tests.harness import Broker, free_port
from tests.page import Page
from tests.wire import Wire

WAIT_S = 60.0


class Plant(NamedTuple):
    """The gateway's files as they are now, and the two authorities."""

    broker: Broker
    folder: Path
    old: Authority
    new: Authority
    mtls: int
    https: int

    def put(self, name: str, *parts: Path) -> None:
        """All parts in one file, in the place of the one before."""
        fresh = self.folder / f"{name}.fresh"
        fresh.write_bytes(b"".join(part.read_bytes() for part in parts))
        fresh.replace(self.folder / name)

    def trust(self, authority: Authority, client: Authority | None = None, name: str = "plc") -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(authority.certificate))
        if client is not None:
            issued = client.folder / "issued"
            context.load_cert_chain(issued / f"{name}.crt", issued / f"{name}.key")
        return context

    def comes_in(self, context: ssl.SSLContext, user: str = "plc") -> bool:
        """A CONNECT that gets its answer: with TLS 1.3 the server's no comes after the handshake."""
        try:
            with socket.create_connection(("127.0.0.1", self.mtls), WAIT_S) as sock:
                with context.wrap_socket(sock, server_hostname="localhost") as secured:
                    secured.sendall(mqtt.connect(f"{user}-{time.monotonic_ns()}", 5))
                    return secured.recv(100)[:1] == b"\x20"
        except (ssl.SSLError, ConnectionError):
            return False

    def page_answers(self, context: ssl.SSLContext) -> bool:
        try:
            return Page(self.https, context, "localhost").get("/healthz").status == 200
        except OSError:  # ssl.SSLError is one
            return False


class Link(threading.Thread):
    """A client with a certificate, connected once, that publishes without a pause."""

    def __init__(self, plant: Plant) -> None:
        super().__init__()
        self.count = 0
        self.failure: Exception | None = None
        self.ending = threading.Event()
        self._wire = Wire.connect(plant.mtls, "link", 5, tls=plant.trust(plant.old, plant.old), timeout=WAIT_S)

    def run(self) -> None:
        try:
            while not self.ending.is_set():
                self._wire.publish_done("plant/1", b"x", 1)
                self.count += 1
            self._wire.disconnect()
        except Exception as error:
            self.failure = error

    def goes_on(self) -> None:
        seen, deadline = self.count, time.monotonic() + WAIT_S
        while self.count < seen + 20:
            assert self.failure is None and time.monotonic() < deadline, self.failure
            time.sleep(0.01)


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Plant]:
    now = read_clocks().wall_ms
    old, new = Authority(tmp_path / "old", now), Authority(tmp_path / "new", now)
    for authority in (old, new):
        authority.create("Plant")
        authority.issue("gateway", server=True, hosts=["localhost", "127.0.0.1"])
        for name in ("plc", "leaving"):
            authority.issue(name)
    mtls, https = free_port(), free_port()
    files = {name: tmp_path / f"{name}.pem" for name in ("cert", "key", "client_ca", "crl")}
    settings: dict[str, object] = {f"tls.{name}": path for name, path in files.items()}
    settings |= {"listeners.mtls": f"127.0.0.1:{mtls}", "http.listen_tls": f"127.0.0.1:{https}", "sys_interval": 0}
    broker = Broker(tmp_path / "data", settings)
    made = Plant(broker, tmp_path, old, new, mtls, https)
    made.put("cert.pem", old.folder / "issued" / "gateway.crt")
    made.put("key.pem", old.folder / "issued" / "gateway.key")
    made.put("client_ca.pem", old.certificate)
    made.put("crl.pem", old.revocations)
    with broker:
        yield made
        assert "Traceback" not in broker.log()
        assert broker.sigterm() == 0


def test_an_authority_is_replaced_while_everything_runs(
    plant: Plant, record_property: Callable[[str, object], None]
) -> None:
    old, new = plant.old, plant.new
    link = Link(plant)
    link.start()

    def soon(what: str, true: Callable[[], bool]) -> None:
        began = time.monotonic()
        while not true():
            assert time.monotonic() < began + WAIT_S, f"{what}\n{plant.broker.log()}"
            time.sleep(0.05)
        record_property(what, round(time.monotonic() - began, 2))
        print(f"{what}: {time.monotonic() - began:.2f} s")
        link.goes_on()

    try:
        soon("the page is there", lambda: plant.page_answers(plant.trust(old)))
        assert not plant.comes_in(plant.trust(old, new))
        plant.put("crl.pem", old.revocations, new.revocations)
        plant.put("client_ca.pem", old.certificate, new.certificate)
        soon("both authorities", lambda: plant.comes_in(plant.trust(old, new)))
        assert plant.comes_in(plant.trust(old, old))
        plant.put("key.pem", new.folder / "issued" / "gateway.key")
        plant.put("cert.pem", new.folder / "issued" / "gateway.crt")
        soon("the gateway's new certificate", lambda: plant.comes_in(plant.trust(new, old)))
        assert not plant.comes_in(plant.trust(old, old))
        soon("that of the page", lambda: plant.page_answers(plant.trust(new)))
        assert not plant.page_answers(plant.trust(old))
        assert plant.comes_in(plant.trust(new, old, "leaving"))
        old.revoke("leaving")
        plant.put("crl.pem", old.revocations, new.revocations)
        soon("the revocation", lambda: not plant.comes_in(plant.trust(new, old, "leaving")))
        assert plant.comes_in(plant.trust(new, old))
        plant.put("client_ca.pem", new.certificate)
        plant.put("crl.pem", new.revocations)
        soon("the new authority alone", lambda: not plant.comes_in(plant.trust(new, old)))
        assert plant.comes_in(plant.trust(new, new))
        link.goes_on()
    finally:
        link.ending.set()
        link.join(WAIT_S)
    assert link.failure is None
    assert plant.broker.log().count("takes over") == 0, "it was one connection all the time"


def test_files_are_looked_at_often_enough() -> None:
    """What is new serves within 5 s: a change is seen at one look, and read at the next when it stands still."""
    assert 2 * POLL_MS <= 4000
    assert CERTIFICATE_S <= 4

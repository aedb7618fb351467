"""Each role by each way in; certificates that change while serving; what must not be told."""

import os
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gateway.access import Access
from gateway.auth import Passwords
from gateway.certificates import Authority
from gateway.cli.main import app
from gateway.store.clock import read_clocks
from tests import wire_format as mqtt
from tests.harness import Broker, free_port
from tests.security_table import ROLES, ROWS
from tests.system.drivers import HERE, missing
from tests.system.test_broker import wait_until
from tests.wire import Wire
from tests.wire_ws import WebSocketSocket

LISTENERS = ("tcp", "tls", "tls-certificate", "mtls", "ws", "wss", "unix")
BY_CERTIFICATE = ("tls-certificate", "mtls")
WAIT_S = 60.0
SECRET = "correct horse battery"


class Plant(NamedTuple):
    """A broker with every kind of listener, users of every role, and the plant's authority."""

    broker: Broker
    authority: Authority
    ports: dict[str, int]
    unix: Path
    opened: list[Any]

    def trust(self, client: str = "") -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        if client:
            folder = self.authority.folder / "issued"
            context.load_cert_chain(folder / f"{client}.crt", folder / f"{client}.key")
        return context

    def socket(self, listener: str, user: str) -> Any:
        """Connected, and through the handshakes below MQTT."""
        if listener == "unix":
            made = socket.socket(socket.AF_UNIX)
            made.settimeout(WAIT_S)
            folder = os.open(self.unix.parent, os.O_RDONLY)
            made.connect(f"/proc/self/fd/{folder}/{self.unix.name}")
            os.close(folder)
            self.opened.append(made)
            return made
        sock = socket.create_connection(("127.0.0.1", self.ports[listener.partition("-")[0]]), WAIT_S)
        if listener not in ("tcp", "ws"):
            context = self.trust(user if listener in BY_CERTIFICATE else "")
            sock = context.wrap_socket(sock, server_hostname="localhost")
        self.opened.append(sock)
        return WebSocketSocket.open(sock, cut=7) if listener in ("ws", "wss") else sock

    def connect(
        self, listener: str, user: str, version: int, will: mqtt.Will | None = None, client_id: str = ""
    ) -> tuple[Wire, int]:
        """With the code of the CONNACK, -1 = closed without; a certificate makes name and password needless."""
        wire = Wire(self.socket(listener, user), version, WAIT_S)
        named = {} if listener in BY_CERTIFICATE else {"username": user, "password": SECRET}
        name = client_id or f"{user}-{listener}-{version}"
        wire.send(mqtt.connect(name, version, True, 60, will, (), **named))
        answer = wire.read_packet()
        return wire, -1 if answer is None else wire.check(answer, mqtt.CONNACK, {})["code"]


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plant]:
    folder = tmp_path_factory.mktemp("security")
    data = folder / "data"
    authority = Authority(folder / "ca", read_clocks().wall_ms)
    authority.create("Plant")
    cert, key = authority.issue("gateway", server=True, hosts=["localhost", "127.0.0.1"])
    passwords, access = Passwords(data / "passwd"), Access(data / "access.toml")
    for role in ROLES:
        passwords.add(f"the-{role}", SECRET.encode())
        authority.issue(f"the-{role}")
    with access.change():
        access.roles.update({f"the-{role}": role for role in ROLES})
    ports = {kind: free_port() for kind in ("tls", "mtls", "ws", "wss")}
    settings: dict[str, object] = {f"listeners.{kind}": f"127.0.0.1:{port}" for kind, port in ports.items()}
    unix = folder / "mqtt.sock"
    settings |= {"tls.cert": cert, "tls.key": key, "tls.client_ca": authority.certificate}
    settings |= {"tls.crl": authority.revocations, "listeners.unix": unix, "bridge.enabled": False, "sys_interval": 0}
    settings |= {"allow_anonymous": "false", "auth.failures_per_minute": "unlimited"}
    with Broker(data, settings) as broker:
        yield Plant(broker, authority, {"tcp": broker.port, **ports}, unix, [])
        assert "defect" not in broker.log()
        assert "Traceback" not in broker.log()
        assert broker.sigterm() == 0
        assert not unix.exists()


def arrives(reader: Wire, topic: str) -> bool:
    """Whether a message of the topic has come to one who reads everything."""
    reader.publish("last/of/all", b"", 0)
    topics: list[str] = []
    while "last/of/all" not in topics:
        topics.append(reader.take(1)[0]["topic"])
    assert set(topics) <= {topic, "last/of/all"}
    return topic in topics


def attempt(wire: Wire, reader: Wire, action: str, topic: str) -> bool:
    """Whether it is allowed, as its client is told and as others see it."""
    refused = {"publish": 0x87, "subscribe": 0x87} if wire.version == 5 else {"publish": 0, "subscribe": 0x80}
    if action == "subscribe":
        (code,) = wire.subscribe(topic, qos=1)
        assert code in (1, refused[action])
        wire.unsubscribe(topic)
        return code == 1
    code = wire.publish_done(topic, b"told", 1).fields.get("code", 0)
    arrived = arrives(reader, topic)
    assert code == (0 if arrived else refused[action])
    return arrived


@pytest.fixture(scope="module")
def reader(plant: Plant) -> Iterator[Wire]:
    wire, code = plant.connect("unix", "the-operator", 5, client_id="reader")
    assert code == 0
    assert wire.subscribe("#", "$SYS/broker/uptime", qos=1) == [1, 1]
    plant.opened.clear()
    yield wire
    wire.disconnect()


@pytest.fixture(autouse=True)
def closing(plant: Plant) -> Iterator[None]:
    yield
    for sock in plant.opened:
        sock.close()
    plant.opened.clear()


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("listener", LISTENERS)
def test_each_role_by_each_way_in(plant: Plant, reader: Wire, listener: str, version: int, role: str) -> None:
    user = f"the-{role}"
    wire, code = plant.connect(listener, user, version)
    assert code == 0
    found = {}
    for row in ROWS:
        topic = row.topic.replace("%u", user)
        if row.action == "will":
            will = mqtt.Will(topic, b"told", 0, False)
            other, code = plant.connect(listener, user, version, will)
            assert code in ((0, 0x87, 0x90) if version == 5 else (0, 5, -1))
            wire = plant.connect(listener, user, version)[0] if code == 0 else wire
            found[row] = code == 0 and arrives(reader, topic)
            other.close()
        else:
            found[row] = attempt(wire, reader, row.action, topic)
    assert found == {row: getattr(row, role) for row in ROWS}
    wire.disconnect()


def test_wrong_names_and_foreign_certificates_stay_outside(plant: Plant, tmp_path: Path) -> None:
    for listener in ("tcp", "tls", "ws", "wss", "unix"):
        wire = Wire(plant.socket(listener, ""), 5, WAIT_S)
        wire.send(mqtt.connect("stranger", 5, username="the-operator", password="wrong"))
        assert wire.expect(mqtt.CONNACK)["code"] == 0x86
        wire.close()
        wire = Wire(plant.socket(listener, ""), 5, WAIT_S)
        wire.send(mqtt.connect("nobody", 5))
        assert wire.expect(mqtt.CONNACK)["code"] == 0x87
        wire.close()
    other = Authority(tmp_path / "ca", read_clocks().wall_ms)
    other.create("Plant")
    cert, key = other.issue("the-operator")
    stranger = plant.trust()
    stranger.load_cert_chain(cert, key)
    for context in (stranger, plant.trust()):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            knock(context, plant.ports["mtls"])


def knock(context: ssl.SSLContext, port: int) -> None:
    """A CONNECT that must get an answer: with TLS 1.3 the server's no comes after the handshake."""
    with socket.create_connection(("127.0.0.1", port), WAIT_S) as sock:
        with context.wrap_socket(sock, server_hostname="localhost") as secured:
            secured.sendall(mqtt.connect("stranger", 5))
            if not secured.recv(100):
                raise ConnectionResetError


def is_refused(context: ssl.SSLContext, port: int) -> bool:
    try:
        knock(context, port)
    except (ssl.SSLError, ConnectionError):
        return True
    return False


def shown(context: ssl.SSLContext, port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), WAIT_S) as sock:
        with context.wrap_socket(sock, server_hostname="localhost") as secured:
            return secured.getpeercert(binary_form=True) or b""


def test_renewed_certificates_and_lists_count_for_the_next_and_links_stay(plant: Plant) -> None:
    """The gateway's own, then the list of those that are revoked, then the authority of the clients."""
    authority, ports = plant.authority, plant.ports
    authority.issue("leaving")
    links = [plant.connect(listener, "leaving", 5, client_id=f"old-{listener}")[0] for listener in BY_CERTIFICATE]
    before = shown(plant.trust("leaving"), ports["tls"])
    authority.renew("gateway")
    wait_until(lambda: shown(plant.trust("leaving"), ports["tls"]) != before, "renewed", WAIT_S)
    assert shown(plant.trust("leaving"), ports["wss"]) != before
    authority.revoke("leaving")
    wait_until(lambda: is_refused(plant.trust("leaving"), ports["mtls"]), "revoked", WAIT_S)
    good = authority.certificate.read_bytes()
    authority.certificate.write_text("half a file")
    wait_until(lambda: "TLS goes on with the files of before" in plant.broker.log(), plant.broker.log(), WAIT_S)
    changes = plant.broker.log().count("certificate files have changed")
    authority.certificate.write_bytes(good)
    wait_until(lambda: plant.broker.log().count("certificate files have changed") > changes, "changed", WAIT_S)
    assert plant.connect("mtls", "the-device", 5)[1] == 0
    for link in links:
        link.ping()
        link.close()


def forebay(plant: Plant, *command: str) -> None:
    """The command on the broker's data, in this process."""
    app([*command, "--data-dir", str(plant.broker.data_dir)], prog_name="forebay", standalone_mode=False)


def test_rules_that_change_while_serving(plant: Plant, reader: Wire) -> None:
    wire, _ = plant.connect("tcp", "the-application", 5)
    assert wire.subscribe("plant/#", qos=1) == [1]
    publisher, _ = plant.connect("tcp", "the-device", 5)
    forebay(plant, "acl", "deny", "read", "plant/#", "--user", "the-application")
    assert publisher.publish_done("plant/x", b"1")["code"] == 0
    assert arrives(reader, "plant/x")
    wire.ping()
    assert not wire.waiting
    assert wire.subscribe("plant/#", qos=1) == [0x87]
    assert "no longer allowed and ended: its subscription to plant/#" in plant.broker.log()
    forebay(plant, "acl", "remove", "1")
    assert wire.subscribe("plant/#", qos=1) == [1]
    forebay(plant, "user", "ban", "--client-id", "the-device-*")
    publisher.expect(mqtt.DISCONNECT, code=0x8A)
    assert plant.connect("tcp", "the-device", 5)[1] == 0x8A
    forebay(plant, "user", "unban", "--client-id", "the-device-*")
    assert plant.connect("tcp", "the-device", 5)[1] == 0


def test_no_secret_is_told(plant: Plant, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither passwords, nor what is kept of them, nor keys, where operators look."""
    wire = Wire(plant.socket("tcp", ""), 5, WAIT_S)
    wire.send(mqtt.connect("leaky", 5, username="the-operator", password="another secret"))
    assert wire.expect(mqtt.CONNACK)["code"] == 0x86
    keys = [path.read_text().splitlines()[1] for path in plant.authority.folder.rglob("*.key")]
    hashes = [line.partition(":")[2] for line in (plant.broker.data_dir / "passwd").read_text().splitlines()]
    told = plant.broker.log()
    settings = [part for key, value in plant.broker.settings.items() for part in ("--set", f"{key}={value}")]
    for command in (
        *(["status"], ["status", "--json"], ["sessions", "list", "--json"], ["user", "list", "--json"]),
        *(["acl", "list", "--json"], ["cert", "list", "--dir", str(plant.authority.folder)]),
        ["config", "show", *settings],
    ):
        forebay(plant, *command)
    shown = capsys.readouterr()
    told += shown.out + shown.err
    assert "the-operator" in told
    for secret in (SECRET, "another secret", "$argon2id$", "PRIVATE KEY", *keys, *hashes):
        assert secret not in told


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("listener", ["ws", "wss"])
def test_mqttjs_over_websocket(plant: Plant, listener: str, version: int) -> None:
    if why := missing("mqttjs"):
        pytest.skip(why)
    url = f"{listener}://the-operator:{SECRET.replace(' ', '%20')}@localhost:{plant.ports[listener]}/mqtt"
    line = ["node", str(HERE / "clients" / "mqttjs_websocket.mjs"), url, str(version), str(plant.authority.certificate)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    expected = [f"page/t {qos} {size}" for size in (10, 100_000) for qos in (0, 1, 2)]
    assert sorted(done.stdout.split("\n")[:-1]) == sorted(expected)

"""Twelve files of mosquitto as people have them: imported by the command, started, and real clients find what they say.

What has no counterpart is named, and nothing else is.
"""

import json
import os
import re
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self, final

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from gateway.certificates import Authority
from gateway.cli.control import NoBrokerError, ask
from gateway.store.clock import read_clocks
from tests.harness import Mosquitto, Server, beside_env, free_port
from tests.system.doctor.drivers import wait_until

WAIT_S: Final = 30.0
WEB: Final = "https://plant.example"


@final
class Guest:
    """A paho client. ``code``: of the CONNACK, None when none came."""

    def __init__(
        self, client_id: str = "guest", version: int = 4, clean: bool = True, user: str = "", password: str = "pw",
        tls: ssl.SSLContext | None = None, transport: Any = "tcp", origin: str = "", answers: bool = True,
    ) -> None:  # fmt: skip
        how = {"clean_session": clean} if version == 4 else {}
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id, protocol=MQTTProtocolVersion(version), transport=transport,
            manual_ack=not answers, **how,
        )  # fmt: skip
        if user:
            self.client.username_pw_set(user, password)
        if tls is not None:
            self.client.tls_set_context(tls)
        if origin:
            self.client.ws_set_options(headers={"Origin": origin})
        self.code: int | None = None
        self.got: list[tuple[str, bytes]] = []
        self.ended = threading.Event()
        self.granted: list[int] = []
        self.client.on_connect = self._connected
        self.client.on_connect_fail = lambda *_: self.ended.set()
        self.client.on_disconnect = lambda *_: self.ended.set()
        self.client.on_message = self._came
        self.client.on_subscribe = self._subscribed

    def come(self, where: int | Path, host: str = "127.0.0.1") -> Self:
        """Until it is in, or knows that it is not."""
        try:
            if isinstance(where, Path):
                self.client.connect(str(where), 1)
            else:
                self.client.connect(host, where)
        except (OSError, ValueError, paho.WebsocketConnectionError):
            return self
        self.client.loop_start()
        wait_until(lambda: self.code is not None or self.ended.is_set(), "an answer to CONNECT")
        if self.code != 0:
            self.client.loop_stop()
        return self

    def _connected(self, _client: Any, _data: Any, _flags: Any, code: Any, _properties: Any) -> None:
        self.code = code.value

    def _came(self, _client: Any, _data: Any, message: paho.MQTTMessage) -> None:
        self.got.append((message.topic, bytes(message.payload)))

    def _subscribed(self, _client: Any, _data: Any, _mid: int, codes: Any, _properties: Any) -> None:
        self.granted += [code.value for code in codes]

    def subscribe(self, topic: str, qos: int = 1) -> list[int]:
        self.granted.clear()
        self.client.subscribe(topic, qos)
        wait_until(lambda: bool(self.granted), "a SUBACK")
        return list(self.granted)

    def publish(self, topic: str, payload: str = "x", qos: int = 1) -> None:
        """Until it is answered."""
        self.client.publish(topic, payload, qos).wait_for_publish(WAIT_S)

    def leave(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


@final
class Gateway(Server):
    """On what was imported, and nothing else; ``listen`` only where the file has no listener."""

    def __init__(self, folder: Path, port: int, listen: bool) -> None:
        super().__init__(folder / "data", port, beside_env())
        self.config, self.listen = folder / "forebay.toml", listen

    def command(self) -> list[str]:
        line = [sys.executable, "-m", "gateway", "run", "-c", str(self.config), "--data-dir", str(self.data_dir)]
        return [*line, "--listen", f"127.0.0.1:{self.port}"] if self.listen else line

    def wait_ready(self, timeout: float = WAIT_S) -> None:
        """Not every file has a listener for TCP."""
        wait_until(self._serves, "the gateway serves", timeout)

    def _serves(self) -> bool:
        assert self.running(), self.log()
        try:
            ask(self.data_dir / "control.sock", {"cmd": "status"})
        except NoBrokerError:
            return False
        return True


@final
@dataclass
class Site:
    """``port`` and ``other`` are what P and Q stand for in the file; ``far`` (R) is the port of another broker."""

    folder: Path
    authority: Authority
    port: int
    other: int
    far: int
    gateway: Gateway
    guests: list[Guest] = field(default_factory=list)

    def guest(self, client_id: str = "guest", where: int | Path | None = None, host: str = "", **how: Any) -> Guest:
        made = Guest(client_id, **how)
        self.guests.append(made)
        return made.come(self.port if where is None else where, host or "127.0.0.1")

    def trust(self, client: str = "", newest: ssl.TLSVersion | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        if client:
            issued = self.authority.folder / "issued"
            context.load_cert_chain(issued / f"{client}.crt", issued / f"{client}.key")
        if newest is not None:
            context.maximum_version = newest
        return context

    def add_user(self, name: str) -> None:
        run("user", "add", name, "--password-file", "-", "--data-dir", str(self.gateway.data_dir), stdin="pw\n")

    def status(self) -> Any:
        return ask(self.gateway.data_dir / "control.sock", {"cmd": "status"})


def run(*arguments: str, stdin: str = "") -> tuple[str, str]:
    """The command, which must succeed: its output, and what it says on stderr."""
    line = [sys.executable, "-m", "gateway", *arguments]
    done = subprocess.run(line, input=stdin, capture_output=True, text=True, env=beside_env(), check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def wait_for(guest: Guest, *messages: tuple[str, bytes]) -> None:
    wait_until(lambda: len(guest.got) >= len(messages), f"{messages}, not {guest.got}")
    assert guest.got == list(messages)


@dataclass(frozen=True)
class Case:
    """``said``: what is remarked on, in order; ``users`` are added before the start. ``listens``: it has a listener."""

    text: str
    said: Sequence[str]
    check: Callable[[Site], None]
    users: Sequence[str] = ()
    listens: bool = True
    remote: bool = False


def as_shipped(site: Site) -> None:
    """On loopback, for anybody; what is acknowledged outlives a kill."""
    away = site.guest("away", clean=False)
    assert away.subscribe("t") == [1]
    away.leave()
    site.guest("plc").publish("t", "kept")
    site.gateway.restart()
    wait_for(site.guest("away", clean=False), ("t", b"kept"))


def in_the_open(site: Site) -> None:
    there = site.guest("six", host="::1", version=5)
    assert there.subscribe("#") == [1]
    site.guest("four").publish("t", "over both")
    wait_for(there, ("t", b"over both"))


def named_users(site: Site) -> None:
    assert site.guest(user="line1").code == 0
    assert site.guest(user="line1", password="wrong").code == 134
    assert site.guest(user="nobody").code == 134
    assert site.guest().code == 135


def limits(site: Site) -> None:
    slow = site.guest("slow", clean=False, answers=False)
    slow.subscribe("t")
    plc = site.guest("plc", version=5)
    for number in range(5):
        plc.publish("t", str(number))
    wait_for(slow, ("t", b"0"), ("t", b"1"))  # no more without an acknowledgement
    slow.leave()
    plc.publish("t", "5", qos=0)
    plc.publish("t", "6")
    again = site.guest("slow", clean=False, answers=True)
    wait_until(lambda: len(again.got) == 7, "all that waited, QoS 0 too")
    plc.client.publish("t", "x" * 5000, 1)
    wait_until(plc.ended.is_set, "the end of who sends too large a packet")


def rules(site: Site) -> None:
    line = site.guest("l", user="line1", version=5)
    seen = site.guest("all", user="boss")
    assert seen.subscribe("line/#") == [1]
    assert line.subscribe("line/1/orders") == [1]
    assert line.subscribe("line/2/#") == [0x87]
    line.publish("line/1/secret")
    line.publish("line/2/data")
    line.publish("line/1/data")
    line.publish("devices/line1/state")
    seen.publish("line/1/orders", "go")
    wait_for(line, ("line/1/orders", b"go"))
    wait_for(seen, ("line/1/data", b"x"), ("line/1/orders", b"go"))
    assert site.guest("anybody").subscribe("open/#") == [1]


def tls(site: Site) -> None:
    assert site.guest(tls=site.trust()).code == 0
    assert site.guest(tls=site.trust(newest=ssl.TLSVersion.TLSv1_2)).code is None
    assert site.guest().code is None


def certificates_of_clients(site: Site) -> None:
    robot = site.guest("robot", tls=site.trust("robot-7"))
    robot.subscribe("robots/robot-7/#")
    robot.publish("robots/robot-8/x")
    robot.publish("robots/robot-7/x", "mine")
    wait_for(robot, ("robots/robot-7/x", b"mine"))
    assert site.guest("none", tls=site.trust()).code is None
    assert site.guest("lost", tls=site.trust("robot-9")).code is None


def web_beside_tcp(site: Site) -> None:
    """The listener for named users makes both so."""
    assert site.guest().code == 135
    panel = site.guest("panel", where=site.other, transport="websockets", user="panel")
    assert panel.subscribe("t") == [1]
    site.guest("plc", user="panel").publish("t", "to the page")
    wait_for(panel, ("t", b"to the page"))


def web_with_tls(site: Site) -> None:
    panel = site.guest("panel", transport="websockets", tls=site.trust(), origin=WEB)
    assert panel.code == 0
    panel.publish("t")
    assert site.guest("evil", transport="websockets", tls=site.trust(), origin="https://evil.example").code is None


def unix_socket(site: Site) -> None:
    here = site.guest("here", where=site.folder / "mqtt.sock", transport="unix")
    assert here.subscribe("t") == [1]
    here.publish("t", "local")
    wait_for(here, ("t", b"local"))
    assert site.status()["listeners"] == [str(site.folder / "mqtt.sock")]


def bridge(site: Site) -> None:
    """To mosquitto with TLS: out under a prefix, in from a filter of its own; what waits while it is away arrives."""
    there, here = site.guest("there", where=site.far, tls=site.trust()), site.guest("here")
    assert there.subscribe("site1/#") == [1]
    assert here.subscribe("orders/#") == [1]
    wait_until(lambda: site.status()["uplinks"][0]["state"] == "forwarding", "the uplink")
    here.publish("line/1", "up")
    wait_for(there, ("site1/line/1", b"up"))

    def asked() -> bool:  # its subscription is known there only after a moment
        there.publish("orders/1", "down")
        return bool(here.got)

    wait_until(asked, "what comes down")
    assert here.got[0] == ("orders/1", b"down")


def the_old_way(site: Site) -> None:
    assert [site.guest(f"g{number}").code for number in range(3)][:2] == [0, 0]
    assert site.guests[2].code != 0
    settings = ask(site.gateway.data_dir / "control.sock", {"cmd": "settings"})
    assert (settings["log.level"], settings["mqtt.max_connections"]) == ('"debug"', "2")


CASES: Final = {
    "as shipped": Case(
        "pid_file /run/mosquitto/mosquitto.pid\n\npersistence true\npersistence_location /var/lib/mosquitto/\n\n"
        "log_dest file /var/log/mosquitto/mosquitto.log\n\ninclude_dir conf.d\n",
        ("pid_file", "persistence", "persistence_location", "log_dest", "autosave_interval"),
        as_shipped, listens=False,
    ),
    "in the open": Case(
        "# the whole plant\nlistener P\nallow_anonymous true\nset_tcp_nodelay true\n", ("set_tcp_nodelay",), in_the_open
    ),
    "named users": Case(
        "listener P 127.0.0.1\npassword_file users\nplugin /usr/lib/dynsec.so\n", ("password_file", "plugin"),
        named_users, ("line1",),
    ),
    "limits": Case(
        "listener P 127.0.0.1\nallow_anonymous true\nmax_inflight_messages 2\nmax_queued_messages 0\n"
        "max_packet_size 4096\npersistent_client_expiration 2m\nqueue_qos0_messages true\nsys_interval 0\n"
        "max_keepalive 60\n",
        ("max_queued_messages", "max_keepalive"), limits,
    ),
    "rules": Case(
        "listener P 127.0.0.1\nallow_anonymous true\npassword_file users\nacl_file acl\n", ("password_file", "topic"),
        rules, ("line1", "boss"),
    ),
    "tls": Case(
        "listener P 127.0.0.1\ncertfile gateway.crt\nkeyfile gateway.key\ntls_version tlsv1.3\nciphers HIGH\n"
        "allow_anonymous true\n",
        ("ciphers",), tls,
    ),
    "certificates of clients": Case(
        "listener P 127.0.0.1\ncertfile gateway.crt\nkeyfile gateway.key\ncafile ca.crt\ncrlfile ca.crl\n"
        "require_certificate true\nuse_identity_as_username true\nacl_file robots\n",
        (), certificates_of_clients,
    ),
    "web beside tcp": Case(
        "per_listener_settings true\n\nlistener P 127.0.0.1\nallow_anonymous true\n\n"
        "listener Q 127.0.0.1\nprotocol websockets\nhttp_dir /var/www\nallow_anonymous false\npassword_file users\n",
        ("per_listener_settings", "http_dir", "password_file", "allow_anonymous"), web_beside_tcp, ("panel",),
    ),
    "web with tls": Case(
        f"listener P 127.0.0.1\nprotocol websockets\nwebsockets_origin {WEB}\ncertfile gateway.crt\n"
        "keyfile gateway.key\nallow_anonymous true\nwebsockets_log_level 3\n",
        ("websockets_log_level",), web_with_tls,
    ),
    "a unix socket": Case(
        "listener 0 FOLDER/mqtt.sock\nallow_anonymous true\nuser mosquitto\n", ("user",), unix_socket
    ),
    "a bridge": Case(
        "listener P 127.0.0.1\nallow_anonymous true\n\nconnection headquarters\naddress 127.0.0.1:R\n"
        "bridge_cafile ca.crt\ncleansession false\nstart_type automatic\nnotifications false\n"
        'topic line/# out 1 "" site1/\ntopic orders/# in 1\n',
        ("cleansession", "start_type"), bridge, remote=True,
    ),
    "the old way": Case(
        "port P\nbind_address 127.0.0.1\nmax_connections 2\nallow_anonymous true\nlog_type all\nmemory_limit 1000\n",
        ("memory_limit",), the_old_way,
    ),
}  # fmt: skip
RULES: Final = """# of the plant
topic readwrite open/#
user line1
topic write line/1/#
topic read line/1/orders
topic deny line/1/secret
user boss
topic readwrite line/#
pattern write devices/%u/#
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("ca"), read_clocks().wall_ms)
    made.create("plant")
    made.issue("gateway", server=True, hosts=("127.0.0.1", "localhost"))
    for name in ("robot-7", "robot-9"):
        made.issue(name)
    made.revoke("robot-9")
    return made


@contextmanager
def remote(authority: Authority, folder: Path, port: int) -> Iterator[None]:
    """mosquitto with TLS."""
    issued = authority.folder / "issued"
    files = {"certfile": issued / "gateway.crt", "keyfile": issued / "gateway.key"}
    with Mosquitto(folder / "far", files, port=port):
        yield


# paho leaves the socket of a handshake that failed to the garbage collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", CASES)
def test_a_file_is_imported_starts_and_behaves(name: str, authority: Authority, tmp_path: Path) -> None:
    case = CASES[name]
    site = Site(tmp_path, authority, free_port(), free_port(), free_port(), Gateway(tmp_path, 0, not case.listens))
    site.gateway.port = site.port
    for one in ("issued/gateway.crt", "issued/gateway.key", "ca.crt", "ca.crl"):
        (tmp_path / Path(one).name).symlink_to(authority.folder / one)
    (tmp_path / "acl").write_text(RULES)
    (tmp_path / "robots").write_text("pattern readwrite robots/%u/#\n")
    (tmp_path / "users").write_text("".join(f"{user}:$7$101$x\n" for user in case.users))
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "saving.conf").write_text("autosave_interval 60\n")
    text = re.sub(r"\b[PQR]\b", lambda m: str({"P": site.port, "Q": site.other, "R": site.far}[m[0]]), case.text)
    file = tmp_path / "mosquitto.conf"
    file.write_text(text.replace("FOLDER", str(tmp_path)))
    _, said = run("config", "import", "mosquitto", str(file), "--out", str(site.gateway.config))
    assert re.findall(r"line \d+: (\w+): ", said) == list(case.said), said
    assert len(said.splitlines()) == len(case.said), said
    for user in case.users:
        site.add_user(user)
    with remote(authority, tmp_path, site.far) if case.remote else open(os.devnull):
        try:
            with site.gateway:
                case.check(site)
        finally:
            for guest in site.guests:
                guest.leave()
    assert "Traceback" not in site.gateway.log()
    assert json.dumps("$7$101$x") not in site.gateway.config.read_text()

"""Files of mosquitto as people have them: what carries over, and what is named."""

import gzip
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from gateway.imports import mosquitto, mosquitto_bridge
from gateway.imports.table import ImportFileError
from gateway.settings.table import Settings, Sources, load

MANUAL = Path("/usr/share/man/man5/mosquitto.conf.5.gz")


def imported(folder: Path, text: str, **files: str) -> tuple[Settings, list[str]]:
    """The settings that come out, read back from their TOML, and the remarks."""
    for name, content in files.items():
        (folder / name).write_text(content)
    result = mosquitto.convert(text, folder)
    out = folder / "forebay.toml"
    out.write_text("".join(line + "\n" for line in result.toml()))
    return load(Sources(out), {}), result.remarks


class Case(NamedTuple):
    """A file, the names of ours that must come out with their values, and words that the remarks must have."""

    text: str
    expected: dict[str, object]
    said: tuple[str, ...] = ()


ACL = """# of the plant
topic read $SYS/#
user line1
topic write line/1/#
topic deny line/1/secret
pattern readwrite devices/%u/#
"""
CASES = {
    "nothing": Case("", {"allow_anonymous": "auto", "listen": [("127.0.0.1", 1883)]}),
    "the one of Debian": Case(
        "pid_file /run/mosquitto/mosquitto.pid\n\npersistence true\npersistence_location /var/lib/mosquitto/\n"
        "log_dest file /var/log/mosquitto/mosquitto.log\n",
        {},
        ("line 1: pid_file: no counterpart", "persistence: no counterpart", "data_dir is where", "log_dest"),
    ),
    "open in the plant": Case(
        "listener 1883\nallow_anonymous true\n",
        {"listen": [("0.0.0.0", 1883), ("::", 1883)], "allow_anonymous": "true"},
    ),
    "one address, named users": Case(
        "listener 1883 192.168.1.5\npassword_file users\n",
        {"listen": [("192.168.1.5", 1883)], "allow_anonymous": "false"},
        ("line 2: password_file: no counterpart: passwords are hashed otherwise", "for 2 users (a, b)"),
    ),
    "limits": Case(
        "max_inflight_messages 100\nmax_queued_messages 0\nmax_packet_size 4096\npersistent_client_expiration 2m\n"
        "queue_qos0_messages true\nupgrade_outgoing_qos true\nsys_interval 0\nmax_keepalive 60\n",
        {
            "mqtt_max_inflight": 100, "mqtt_max_packet_size": 4096, "mqtt_session_expiry_interval": 60 * 86400,
            "mqtt_mqueue_store_qos0_persistent": True, "mqtt_upgrade_qos": True, "sys_interval": 0,
        },
        ("mqtt.max_mqueue_len differs: only for sessions that end", "max_keepalive: no counterpart"),
    ),
    "acl": Case(
        "listener 1883 127.0.0.1\nallow_anonymous true\nacl_file acl\n",
        {"allow_anonymous": "true"},
        ("acl line 2: topic: differs: for everybody here",),
    ),
    "tls": Case(
        "listener 8883 127.0.0.1\ncertfile server.crt\nkeyfile server.key\ntls_version tlsv1.3\nciphers HIGH\n"
        "allow_anonymous true\n",
        {"listeners_tls": [("127.0.0.1", 8883)], "listen": [], "tls_min_version": "1.3"},
        ("ciphers: no counterpart: the TLS library chooses",),
    ),
    "certificates of clients": Case(
        "listener 8883 127.0.0.1\ncertfile server.crt\nkeyfile server.key\ncafile ca.crt\nrequire_certificate true\n"
        "use_identity_as_username true\n",
        {"listeners_mtls": [("127.0.0.1", 8883)], "listen": [], "tls_certificate_user": "cn"},
    ),
    "websockets beside tcp, per listener": Case(
        "per_listener_settings true\nlistener 1883 127.0.0.1\nallow_anonymous true\n\n"
        "listener 9001 127.0.0.1\nprotocol websockets\nallow_anonymous false\n",
        {
            "listen": [("127.0.0.1", 1883)], "listeners_ws": [("127.0.0.1", 9001)], "allow_anonymous": "false",
        },
        ("per_listener_settings: no counterpart", "it differs by listener"),
    ),
    "a unix socket": Case(
        "listener 0 /run/test/mqtt.sock\n", {"listeners_unix": Path("/run/test/mqtt.sock"), "listen": []}
    ),
    "a bridge": Case(
        "connection cloud\naddress broker.example:8883 spare.example:8883\nbridge_cafile ca.crt\nremote_username gw\n"
        "remote_password hidden\ncleansession false\nnotifications_local_only true\nstart_type automatic\n"
        'topic line/# out 1 "" site1/\ntopic commands/# both 1\ntopic "" in 0 local/x far/x\n',
        {},
        ("remote_password: no counterpart: a password is not carried over", "need MQTT 5", "QoS 0 as there"),
    ),
    "the old way to listen": Case(
        "port 1884\nbind_address 127.0.0.1\nmax_connections 500\nlog_type all\nuser mosquitto\nmemory_limit 1000\n",
        {"listen": [("127.0.0.1", 1884)], "mqtt_max_connections": 500, "log_level": "debug"},
        ("user: no counterpart: systemd", "memory_limit: no counterpart"),
    ),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("server.crt", "server.key", "ca.crt"):
        (tmp_path / name).touch()
    (tmp_path / "users").write_text("a:$7$101$x\nb:$7$101$y\n")
    (tmp_path / "acl").write_text(ACL)
    return tmp_path


@pytest.mark.parametrize("name", CASES)
def test_a_file_carries_over(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    case = CASES[name]
    settings, remarks = imported(folder, case.text)
    assert {key: getattr(settings, key) for key in case.expected} == case.expected
    for words in case.said:
        assert any(words in remark for remark in remarks), remarks
    if not case.said:
        assert remarks == []
    assert "hidden" not in (folder / "forebay.toml").read_text()


def test_a_bridge_is_an_uplink(folder: Path) -> None:
    settings, _ = imported(folder, CASES["a bridge"].text)
    (uplink,) = settings.uplink
    assert [str(remote.host) for remote in uplink.addresses] == ["broker.example", "spare.example"]
    assert [remote.port for remote in uplink.addresses] == [8883, 8883]
    assert (uplink.name, uplink.user, uplink.status_topics) == ("cloud", "gw", "local")
    assert len(uplink.rules) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("listener", "line 1: listener : expected a port"),
        ("listener 99999", "expected a port"),
        ("allow_anonymous maybe", "line 1: allow_anonymous maybe: expected true or false"),
        ("max_inflight_messages ten", "expected a whole number"),
        ("persistent_client_expiration soon", "expected a number and h, d, w, m or y"),
        ("connection x\ntopic a\n", "line 1: connection x: expected an address"),
        ("connection x\naddress a\n", "expected a topic"),
        ("connection x\naddress a\ntopic a sideways\n", "line 3: topic a sideways: expected PATTERN"),
        ("include_dir nowhere", "expected a folder"),
        ("{json: true}", "expected a setting of mosquitto.conf"),
    ],
)
def test_what_mosquitto_would_not_take_either(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ImportFileError, match=re.escape(said)):
        mosquitto.convert(text, tmp_path)


def test_included_files_are_read_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "b.conf").write_text("max_inflight_messages 7\n")
    (tmp_path / "conf.d" / "a.conf").write_text("max_inflight_messages 5\nnonsense 1\n")
    settings, remarks = imported(tmp_path, "include_dir conf.d\n")
    assert settings.mqtt_max_inflight == 7
    assert remarks == ["a.conf line 2: nonsense: no counterpart: not among the settings of mosquitto known here"]


@pytest.mark.skipif(not MANUAL.exists(), reason="mosquitto's manual is not installed")
def test_every_setting_of_the_manual_is_known() -> None:
    with gzip.open(MANUAL, "rt", encoding="utf-8") as manual:
        found = set(re.findall(r"^\\fB([a-z_0-9.]+)\\fR(?: (?:\[|\\fI|\().*)?$", manual.read(), re.MULTILINE))
    words = {"dlt", "file", "ipv4", "ipv6", "mosquitto", "stderr", "stdout", "syslog", "value", "websockets"}
    assert len(found) > 100
    assert found - words - mosquitto.known() - mosquitto_bridge.known() == {"include_dir"}

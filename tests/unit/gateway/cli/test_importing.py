"""``forebay config import``: files in, our settings out, and what is said on the way."""

from pathlib import Path

import pytest

from gateway.core.limits import NEVER
from gateway.settings.table import Sources, load
from tests.command import Forebay

_TBMQ_ENV = """# tuned for the plant
MQTT_MSG_WRITE_AND_FLUSH=false
MQTT_BUFFERED_MSG_COUNT=20
MQTT_APP_BUFFERED_MSG_COUNT=10
MQTT_MAX_IN_FLIGHT_MSGS=500
MQTT_PERSISTENT_SESSION_DEVICE_PERSISTED_MESSAGES_LIMIT=10000
MQTT_PERSISTENT_SESSION_DEVICE_PERSISTED_MESSAGES_TTL=604800
MQTT_CLIENT_SESSION_EXPIRY_TTL=0
MQTT_CLIENT_SESSION_EXPIRY_MAX_EXPIRY_INTERVAL=86400
TCP_NETTY_MAX_PAYLOAD_SIZE=4194304
TB_KAFKA_SERVERS=kafka:9092
SPRING_DATASOURCE_PASSWORD=hush
"""
_TBMQ_YML = """
listener:
  tcp:
    netty:
      max_payload_size: "${TCP_NETTY_MAX_PAYLOAD_SIZE:4194304}"
mqtt:
  write-and-flush: "${MQTT_MSG_WRITE_AND_FLUSH:false}"
  buffered-msg-count: "${MQTT_BUFFERED_MSG_COUNT:20}"
  max-in-flight-msgs: 500
  client-session-expiry:
    max-expiry-interval: "${MQTT_CLIENT_SESSION_EXPIRY_MAX_EXPIRY_INTERVAL:86400}"
    ttl: "${MQTT_CLIENT_SESSION_EXPIRY_TTL:0}"
  persistent-session:
    device:
      persisted-messages:
        limit: "${MQTT_PERSISTENT_SESSION_DEVICE_PERSISTED_MESSAGES_LIMIT:10000}"
        ttl: "${MQTT_PERSISTENT_SESSION_DEVICE_PERSISTED_MESSAGES_TTL:604800}"
    app:
      persisted-messages:
        buffered-msg-count: "${MQTT_APP_BUFFERED_MSG_COUNT:10}"
"""
_TBMQ_COMPOSE = "services:\n  tbmq:\n    image: tbmq\n    environment:\n" + "".join(
    f"      - {line}\n" for line in _TBMQ_ENV.splitlines()[1:]
)
_EMQX = """
mqtt {
  max_inflight = 64
  max_mqueue_len = 0          # infinity
  mqueue_store_qos0 = true
  max_packet_size = 2MB
  idle_timeout = 15s
  session_expiry_interval = 2h
  max_session_expiry_interval = infinity
  message_expiry_interval = 1d
  keepalive_multiplier = 2.5
  server_keepalive = disabled
  exclusive_subscription = false
}
mqtt.max_awaiting_rel = 100
zones.iot.mqtt.max_inflight = 5
force_shutdown.max_heap_size = 32MB
"""


@pytest.mark.parametrize("text", [_TBMQ_ENV, _TBMQ_YML, _TBMQ_COMPOSE], ids=["env", "yml", "compose"])
def test_settings_of_tbmq_load_with_their_values(forebay: Forebay, tmp_path: Path, text: str) -> None:
    (tmp_path / "tbmq.conf").write_text(text)
    code, out, _ = forebay("config", "import", "tbmq", "tbmq.conf", "--out", "f.toml")
    assert (code, out) == (0, "f.toml: written\n")
    settings = load(Sources(tmp_path / "f.toml"), {})
    assert settings.mqtt_write_and_flush is False
    assert settings.mqtt_buffered_msg_count == 20
    assert settings.mqtt_receive_maximum == 500
    assert settings.mqtt_persistent_session_device_persisted_messages_limit == 10_000
    assert settings.mqtt_persistent_session_device_persisted_messages_ttl == 604_800
    assert settings.mqtt_session_expiry_interval == NEVER
    assert settings.mqtt_max_session_expiry_interval == 86_400
    assert settings.mqtt_max_packet_size == 4 * 1024 * 1024
    written = (tmp_path / "f.toml").read_text()
    # at its default, and so not written
    assert "mqtt.persistent-session.app" not in written and "session_expiry_interval = " in written
    assert "\nmqtt.session_expiry_interval" not in written
    assert '# MQTT_BUFFERED_MSG_COUNT = "20" (line ' in written


def test_settings_of_emqx_load_with_their_values(forebay: Forebay, tmp_path: Path) -> None:
    (tmp_path / "emqx.conf").write_text(_EMQX)
    code, out, err = forebay("config", "import", "emqx", "emqx.conf")
    assert code == 0
    (tmp_path / "f.toml").write_text(out)
    settings = load(Sources(tmp_path / "f.toml"), {})
    assert settings.mqtt_max_inflight == 64
    assert settings.mqtt_max_mqueue_len == 0
    assert settings.mqtt_mqueue_store_qos0_persistent is True
    assert settings.mqtt_max_packet_size == 2 * 1024 * 1024
    assert settings.mqtt_connect_timeout == 15_000
    assert settings.mqtt_session_expiry_interval == 7_200
    assert settings.mqtt_message_expiry_interval == 86_400
    assert settings.mqtt_keepalive_multiplier == 250
    assert settings.mqtt_receive_maximum == 100
    assert out.splitlines()[:3] == [
        "# Imported from emqx, only what differs from the defaults.",
        '# mqtt.max_inflight = "64" (line 3)',
        "mqtt.max_inflight = 64",
    ]
    about = [line.split(": ")[3] for line in err.splitlines()]
    assert about == [
        "mqtt.max_mqueue_len",
        "mqtt.mqueue_store_qos0",
        "mqtt.exclusive_subscription",
        "mqtt.max_awaiting_rel",
        "zones.iot.mqtt.max_inflight",
        "force_shutdown.max_heap_size",
    ]


def test_what_does_not_carry_over_is_a_line_each_and_tells_no_secret(forebay: Forebay, tmp_path: Path) -> None:
    (tmp_path / "b.env").write_text(_TBMQ_ENV)
    err = forebay("config", "import", "tbmq", "b.env").err
    lines = err.splitlines()
    assert len([line for line in lines if ": no counterpart" in line]) == 1
    assert "line 11: TB_KAFKA_SERVERS: application_log.kafka.servers differs: in force only with " in err
    assert "forebay: b.env: line 12: SPRING_DATASOURCE_PASSWORD: no counterpart: Forebay needs no PostgreSQL" in err
    assert "line 6: MQTT_PERSISTENT_SESSION_DEVICE_PERSISTED_MESSAGES_LIMIT: " in err and "pushed back" in err
    assert "hush" not in err


@pytest.mark.parametrize(
    ("broker", "text", "line"),
    [
        (
            "tbmq",
            "A=1\nMQTT_MSG_WRITE_AND_FLUSH=maybe\n",
            'line 2: MQTT_MSG_WRITE_AND_FLUSH = "maybe": expected true or false',
        ),
        (
            "tbmq",
            "mqtt:\n  max-in-flight-msgs: none\n",
            'line 2: mqtt.max-in-flight-msgs = "none": expected an integer',
        ),
        (
            "tbmq",
            "MQTT_PERSISTENT_SESSION_DEVICE_PERSISTED_MESSAGES_LIMIT=70000",
            'line 1: MQTT_PERSISTENT_SESSION_DEVICE_PERSISTED_MESSAGES_LIMIT = "70000": expected an integer',
        ),
        ("emqx", "mqtt.max_inflight = 0", 'line 1: mqtt.max_inflight = "0": expected an integer from 1 to 65535'),
        (
            "emqx",
            "mqtt {\n idle_timeout = 15 s }",
            'line 2: mqtt.idle_timeout = "15 s": expected a duration such as "15s"',
        ),
        ("emqx", "mqtt {", 'line 1: end of file: expected "}"'),
    ],
)
def test_bad_input_is_one_line_and_2(forebay: Forebay, tmp_path: Path, broker: str, text: str, line: str) -> None:
    (tmp_path / "bad").write_text(text)
    code, out, err = forebay("config", "import", broker, "bad", "--out", "f.toml")
    assert (code, out) == (2, "")
    assert err.startswith(f"forebay: bad: {line}")
    assert err.count("\n") == 1
    assert not (tmp_path / "f.toml").exists()


def test_files_that_cannot_be_read_or_written(forebay: Forebay, tmp_path: Path) -> None:
    assert forebay("config", "import", "emqx", "none").err == (
        "forebay: none: cannot be read: No such file or directory\n"
    )
    (tmp_path / "latin").write_bytes(b"a = \xff")
    assert forebay("config", "import", "emqx", "latin") == (
        2,
        "",
        "forebay: latin: not UTF-8 at byte 4: expected a settings file of emqx\n",
    )
    (tmp_path / "e.conf").write_text("mqtt.max_inflight = 64")
    (tmp_path / "f.toml").write_text("mine")
    code, _, err = forebay("config", "import", "emqx", "e.conf", "-o", "f.toml")
    assert (code, err) == (1, "forebay: f.toml: is there already; --force writes over it\n")
    assert (tmp_path / "f.toml").read_text() == "mine"
    assert forebay("config", "import", "emqx", "e.conf", "-o", "f.toml", "--force").code == 0
    assert "mqtt.max_inflight = 64" in (tmp_path / "f.toml").read_text()
    assert forebay("config", "import", "emqx", "e.conf", "-o", "no/f.toml").code == 1
    assert forebay("config", "import", "hivemq", "e.conf").code == 2

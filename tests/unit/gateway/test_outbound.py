"""The settings of the outbound paths: a TBMQ operator's keys and variables as they stand."""

import dataclasses
from pathlib import Path

import pytest

from gateway.outbound import OutboundSettings
from gateway.settings import TABLE, SettingsError, Sources, load

TBMQ = {
    "mqtt.write-and-flush": ("MQTT_MSG_WRITE_AND_FLUSH", True),
    "mqtt.buffered-msg-count": ("MQTT_BUFFERED_MSG_COUNT", 5),
    "mqtt.persistent-session.device.persisted-messages.write-and-flush": ("MQTT_PERSISTENT_MSG_WRITE_AND_FLUSH", True),
    "mqtt.persistent-session.device.persisted-messages.buffered-msg-count": ("MQTT_PERSISTENT_BUFFERED_MSG_COUNT", 5),
    "mqtt.persistent-session.device.persisted-messages.limit": (
        "MQTT_PERSISTENT_SESSION_DEVICE_PERSISTED_MESSAGES_LIMIT",
        0,
    ),
    "mqtt.persistent-session.device.persisted-messages.ttl": (
        "MQTT_PERSISTENT_SESSION_DEVICE_PERSISTED_MESSAGES_TTL",
        0,
    ),
    "mqtt.persistent-session.app.persisted-messages.write-and-flush": ("MQTT_APP_MSG_WRITE_AND_FLUSH", False),
    "mqtt.persistent-session.app.persisted-messages.buffered-msg-count": ("MQTT_APP_BUFFERED_MSG_COUNT", 10),
    "mqtt.buffered-delivery.session-cache-max-size": ("MQTT_BUFFERED_CACHE_MAX_SIZE", 10_000),
    "mqtt.buffered-delivery.session-cache-expiration-ms": ("MQTT_BUFFERED_CACHE_EXPIRY_MS", 300_000),
    "mqtt.buffered-delivery.scheduler-execution-interval-ms": ("MQTT_BUFFERED_SCHEDULER_INTERVAL_MS", 100),
    "mqtt.buffered-delivery.idle-session-flush-timeout-ms": ("MQTT_BUFFERED_IDLE_FLUSH_MS", 200),
}


def test_names_variables_and_defaults_are_those_of_tbmq() -> None:
    fields = {field.metadata["entry"].name for field in dataclasses.fields(OutboundSettings)}
    assert fields == set(TBMQ)
    settings = load(Sources(), {})
    for name, (variable, default) in TBMQ.items():
        assert TABLE[name].foreign_env == variable
        assert getattr(settings, TABLE[name].field) == default


@pytest.mark.parametrize("name", TBMQ)
def test_each_is_taken_by_key_and_by_both_variables(name: str, tmp_path: Path) -> None:
    entry = TABLE[name]
    variable, default = TBMQ[name]
    value: object = not default if isinstance(default, bool) else 77
    text = str(value).lower()
    path = tmp_path / "forebay.toml"
    path.write_text(f"{name} = {text}\n")
    for settings in (
        load(Sources(path), {}),
        load(Sources(), {variable: text}),
        load(Sources(), {entry.env: text}),
        load(Sources(), {entry.env: text, variable: str(default)}),  # Forebay's own wins
    ):
        assert getattr(settings, entry.field) == value
        assert getattr(settings.limits(), entry.limit) == value
    assert entry.env == "FOREBAY_" + name.replace(".", "_").replace("-", "_").upper()
    with pytest.raises(SettingsError, match=f"^{variable}: {name} = "):
        load(Sources(), {variable: "maybe"})


def test_a_yml_of_tables_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "forebay.toml"
    path.write_text("[mqtt.persistent-session.device.persisted-messages]\nwrite-and-flush = false\nlimit = 10000\n")
    limits = load(Sources(path), {}).limits()
    assert (limits.device_write_and_flush, limits.device_limit) == (False, 10_000)


def test_client_types_by_file_and_by_text(tmp_path: Path) -> None:
    path = tmp_path / "forebay.toml"
    path.write_text(
        '[[client_type]]\nclient_id = "c-*"\ntype = "application"\n[[client_type]]\nusername = "u"\ntype = "DEVICE"\n'
    )
    rules = [("c-*", "", True), ("", "u", False)]
    assert load(Sources(path), {}).limits().client_types == rules
    text = "c-*=application,username:u=device"
    assert load(Sources(), {"FOREBAY_CLIENT_TYPE": text}).limits().client_types == rules

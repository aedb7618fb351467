"""The settings of the outbound paths: a TBMQ operator's keys and variables as they stand."""

import dataclasses
import re
from pathlib import Path

import pytest

from gateway.core.limits import ClientRule
from gateway.settings.outbound import OutboundSettings
from gateway.settings.security import SecuritySettings
from gateway.settings.table import TABLE, SettingsError, Sources, load

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

EMQX = {
    "mqtt.mqueue_priorities",
    "mqtt.mqueue_default_priority",
    "mqtt.max_waiting_bytes",
    "mqtt.max_subscriptions",
    "delayed.max_messages",
    "delayed.max_bytes",
    "mqtt.retry_interval",
    "mqtt.await_rel_timeout",
}


def test_names_variables_and_defaults_are_those_of_tbmq() -> None:
    inherited = {field.name for field in dataclasses.fields(SecuritySettings)}
    of_class = [field for field in dataclasses.fields(OutboundSettings) if field.name not in inherited]
    fields = {field.metadata["entry"].name for field in of_class}
    assert fields == set(TBMQ) | EMQX
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
    rules = [ClientRule("c-*", "", True), ClientRule("", "u", False)]
    assert load(Sources(path), {}).limits().client_types == rules
    text = "c-*=application,username:u=device"
    assert load(Sources(), {"FOREBAY_CLIENT_TYPE": text}).limits().client_types == rules


def test_priorities_by_file_and_by_text(tmp_path: Path) -> None:
    path = tmp_path / "forebay.toml"
    path.write_text('[mqtt.mqueue_priorities]\n"plant/+/alarm" = 200\n"a.b/c" = 1\n')
    rows = [("plant/+/alarm", 200), ("a.b/c", 1)]
    assert load(Sources(path), {}).limits().mqueue_priorities == rows
    assert (
        load(Sources(), {"FOREBAY_MQTT_MQUEUE_PRIORITIES": "plant/+/alarm=200, a.b/c=1"}).mqtt_mqueue_priorities == rows
    )


@pytest.mark.parametrize("value", ["0", "256", "true", "2.5", '"x"'])
def test_a_wrong_priority_is_named_with_its_topic(tmp_path: Path, value: str) -> None:
    path = tmp_path / "forebay.toml"
    path.write_text(f'[mqtt.mqueue_priorities]\n"fine" = 7\n"a/b" = {value}\n')
    said = (
        f'{path}: mqtt.mqueue_priorities."a/b" = {value}: expected a table of topics or filters with a priority from 1'
    )
    with pytest.raises(SettingsError, match="^" + re.escape(said)):
        load(Sources(path), {})


@pytest.mark.parametrize("filter", ["a/#/b", "a+", "$share/g/t", ""])
def test_a_filter_that_is_none_is_named(filter: str) -> None:
    with pytest.raises(
        SettingsError, match=re.escape(f'--set: mqtt.mqueue_priorities."{filter}" = 3: expected a table')
    ):
        load(Sources(sets=(f"mqtt.mqueue_priorities={filter}=3",)), {})


@pytest.mark.parametrize("text", ["disabled", "a", "a="])
def test_other_text_is_no_table(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^--set: mqtt\.mqueue_priorities"):
        load(Sources(sets=(f"mqtt.mqueue_priorities={text}",)), {})


def test_times_of_repetition_are_off_unless_given() -> None:
    limits = load(Sources(), {}).limits()
    assert (limits.retry_ms, limits.await_rel_ms) == (0, 0)
    given = load(Sources(sets=("mqtt.retry_interval=30s", "mqtt.await_rel_timeout=5m")), {}).limits()
    assert (given.retry_ms, given.await_rel_ms) == (30_000, 300_000)
    assert load(Sources(sets=("mqtt.retry_interval=never",)), {}).limits().retry_ms == 0

"""EMQX's documented settings: each is known, and its default carries over."""

import re
from pathlib import Path

import pytest

from gateway.core.limits import NEVER
from gateway.imports.convert import convert
from gateway.imports.emqx import EMQX, MAPS
from gateway.imports.hocon import read
from gateway.imports.table import Given, ImportFileError, Mapped
from gateway.settings.table import TABLE, Sources, load

DOCUMENTED = [
    # key, default, our keys
    ("mqtt.max_inflight", "32", ["mqtt.max_inflight"]),
    ("mqtt.max_mqueue_len", "1000", ["mqtt.max_mqueue_len"]),
    ("mqtt.mqueue_store_qos0", "true", ["mqtt.mqueue_store_qos0", "mqtt.mqueue_store_qos0_persistent"]),
    ("mqtt.mqueue_priorities", "disabled", ["mqtt.mqueue_priorities"]),
    ("mqtt.mqueue_default_priority", "lowest", ["mqtt.mqueue_default_priority"]),
    ("mqtt.retry_interval", "infinity", ["mqtt.retry_interval"]),
    ("mqtt.max_awaiting_rel", "100", ["mqtt.receive_maximum"]),
    ("mqtt.await_rel_timeout", "300s", ["mqtt.await_rel_timeout"]),
    ("mqtt.max_subscriptions", "infinity", ["mqtt.max_subscriptions"]),
    ("mqtt.upgrade_qos", "false", ["mqtt.upgrade_qos"]),
    ("mqtt.session_expiry_interval", "2h", ["mqtt.session_expiry_interval"]),
    ("mqtt.max_session_expiry_interval", "infinity", ["mqtt.max_session_expiry_interval"]),
    ("mqtt.message_expiry_interval", "infinity", ["mqtt.message_expiry_interval"]),
    ("mqtt.max_packet_size", "1MB", ["mqtt.max_packet_size"]),
    ("mqtt.max_topic_levels", "128", ["mqtt.max_topic_levels"]),
    ("mqtt.max_topic_alias", "65535", ["mqtt.max_topic_alias"]),
    ("mqtt.max_clientid_len", "65535", ["mqtt.max_clientid_len"]),
    ("mqtt.keepalive_multiplier", "1.5", ["mqtt.keepalive_multiplier"]),
    ("mqtt.keepalive_check_interval", "30s", []),
    ("mqtt.server_keepalive", "disabled", ["mqtt.server_keepalive"]),
    ("mqtt.idle_timeout", "15s", ["mqtt.connect_timeout"]),
    ("mqtt.shared_subscription_strategy", "round_robin", ["mqtt.shared_subscription_strategy"]),
    ("mqtt.shared_subscription_initial_sticky_pick", "random", []),
    ("mqtt.shared_dispatch_ack_enabled", "false", []),
    ("broker.shared_dispatch_ack_enabled", "false", []),
    ("mqtt.exclusive_subscription", "false", []),
    ("mqtt.ignore_loop_deliver", "false", []),
    ("mqtt.strict_mode", "true", []),
    ("force_shutdown.max_mailbox_size", "1000", []),
    ("force_shutdown.max_heap_size", "32MB", []),
    ("overload_protection.enable", "false", []),
    ("overload_protection.backoff_new_conn", "true", []),
    ("overload_protection.backoff_hibernation", "true", []),
    ("flapping_detect.enable", "true", ["flapping_detect.enable"]),
    ("flapping_detect.max_count", "15", ["flapping_detect.max_count"]),
    ("flapping_detect.window_time", "1m", ["flapping_detect.window_time"]),
    ("flapping_detect.ban_time", "5m", ["flapping_detect.ban_time"]),
    ("mqtt.limiter.messages_rate", "100/s", []),
    ("limiter.max_conn_rate", "1000/s", []),
    ("limiter.bytes_burst", "1MB", []),
    ("banned.clean_when_banned", "false", []),
    ("delayed.enable", "true", []),
    ("delayed.max_delayed_messages", "0", ["delayed.max_messages"]),
    ("durable_sessions.enable", "false", []),
    ("durable_sessions.batch_size", "100", []),
    ("durable_sessions.checkpoint_interval", "15s", []),
    ("durable_sessions.message_retention_period", "1d", []),
    ("conn_congestion.enable_alarm", "false", []),
    ("conn_congestion.min_alarm_sustain_duration", "1m", []),
    ("listeners.tcp.default.tcp_options.high_watermark", "1MB", []),
    ("bridges.mqtt.up.resource_opts.buffer_mode", "memory_only", []),
    ("actions.mqtt.up.resource_opts.max_buffer_bytes", "256MB", []),
    ("resource_opts.inflight_window", "100", []),
    ("mq.max_queue_count", "100", []),
    ("queues.max_queue_count", "100", []),
    ("streams.max_stream_count", "1000", []),
]


@pytest.mark.parametrize(("key", "default", "ours"), DOCUMENTED)
def test_each_documented_setting_is_known(key: str, default: str, ours: list[str]) -> None:
    rows = EMQX.find(key)
    assert [row.target for row in rows if isinstance(row, Mapped)] == ours
    result = convert(EMQX, [Given(key, default, 7)])
    assert list(result.taken) == [name for name in ours if name in TABLE]
    if not ours:
        (remark,) = result.remarks
        assert remark.startswith(f"line 7: {key}: no counterpart: ")
        assert len(remark) > len(f"line 7: {key}: no counterpart: ") + 10
    for name in ours:
        if name not in TABLE:
            assert result.remarks == [f"line 7: {key}: no counterpart in this version"]


def test_every_row_is_documented_or_a_group_and_every_target_a_setting() -> None:
    documented = {key for key, *_ in DOCUMENTED}
    assert {row.key for row in EMQX.rows if not row.key.endswith("*")} <= documented
    assert {row.target for row in EMQX.rows if isinstance(row, Mapped)} <= set(TABLE)


@pytest.mark.parametrize(
    ("key", "text", "ours", "value"),
    [
        ("mqtt.max_mqueue_len", "0", "mqtt.max_mqueue_len", 0),
        ("mqtt.max_mqueue_len", "infinity", "mqtt.max_mqueue_len", 0),
        ("mqtt.max_mqueue_len", "5000", "mqtt.max_mqueue_len", 5000),
        ("mqtt.shared_subscription_strategy", "sticky", "mqtt.shared_subscription_strategy", "sticky"),
        ("mqtt.shared_subscription_strategy", "hash_topic", "mqtt.shared_subscription_strategy", "hash_topic"),
        ("mqtt.max_awaiting_rel", "0", "mqtt.receive_maximum", 65535),
        ("mqtt.max_awaiting_rel", "infinity", "mqtt.receive_maximum", 65535),
        ("mqtt.idle_timeout", "15s", "mqtt.connect_timeout", 15_000),
        ("mqtt.idle_timeout", "2500", "mqtt.connect_timeout", 2_500),
        ("mqtt.session_expiry_interval", "1h30m", "mqtt.session_expiry_interval", 5_400),
        ("mqtt.max_session_expiry_interval", "infinity", "mqtt.max_session_expiry_interval", NEVER),
        ("mqtt.message_expiry_interval", "infinity", "mqtt.message_expiry_interval", 0),
        ("mqtt.message_expiry_interval", "1d", "mqtt.message_expiry_interval", 86_400),
        ("mqtt.max_packet_size", "10MB", "mqtt.max_packet_size", 10 * 1024 * 1024),
        ("mqtt.server_keepalive", "60", "mqtt.server_keepalive", 60),
        ("mqtt.server_keepalive", "disabled", "mqtt.server_keepalive", 0),
        ("mqtt.keepalive_multiplier", "2", "mqtt.keepalive_multiplier", 200),
        ("mqtt.mqueue_store_qos0", "true", "mqtt.mqueue_store_qos0_persistent", True),
        ("mqtt.mqueue_priorities", "disabled", "mqtt.mqueue_priorities", []),
        ("mqtt.mqueue_default_priority", "highest", "mqtt.mqueue_default_priority", "highest"),
        ("mqtt.retry_interval", "infinity", "mqtt.retry_interval", 0),
        ("mqtt.retry_interval", "30s", "mqtt.retry_interval", 30_000),
        ("mqtt.await_rel_timeout", "300s", "mqtt.await_rel_timeout", 300_000),
        ("delayed.max_delayed_messages", "0", "delayed.max_messages", 0),
        ("delayed.max_delayed_messages", "12435", "delayed.max_messages", 12_435),
    ],
)
def test_values_keep_their_meaning(key: str, text: str, ours: str, value: object) -> None:
    assert convert(EMQX, [Given(key, text, 1)]).taken[ours].value == value


@pytest.mark.parametrize(
    ("key", "text", "ours"),
    [
        ("mqtt.idle_timeout", "infinity", "mqtt.connect_timeout"),
        ("mqtt.session_expiry_interval", "0s", "mqtt.session_expiry_interval"),
        ("mqtt.max_awaiting_rel", "70000", "mqtt.receive_maximum"),
    ],
)
def test_a_value_that_only_emqx_allows_is_said_and_left_out(key: str, text: str, ours: str) -> None:
    result = convert(EMQX, [Given(key, text, 4)])
    assert not result.taken
    allowed = TABLE[ours].kind.allowed
    assert result.remarks == [f'line 4: {key}: no counterpart for "{text}": {ours} is {allowed} and keeps its default']


FRAGMENT = """
mqtt {
  max_inflight = 32
  max_mqueue_len = 1000
  mqueue_priorities {
    "topic/1" = 10
    "topic/2" = 8
    "plant/+/alarm" = 255
  }
  mqueue_default_priority = highest
  mqueue_store_qos0 = true
  retry_interval = 30s
  max_awaiting_rel = 100
  await_rel_timeout = 300s
}
"""


def test_a_documented_fragment_is_the_queue_that_it_was(tmp_path: Path) -> None:
    result = convert(EMQX, read(FRAGMENT, MAPS))
    (toml := tmp_path / "forebay.toml").write_text("\n".join(result.toml()))
    limits = load(Sources(toml), {}).limits()
    assert limits.mqueue_priorities == [("topic/1", 10), ("topic/2", 8), ("plant/+/alarm", 255)]
    assert limits.mqueue_default_priority == "highest"
    assert (limits.retry_ms, limits.await_rel_ms, limits.receive_maximum) == (30_000, 300_000, 100)
    assert limits.mqueue_store_qos0 and limits.mqueue_store_qos0_persistent


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ('"a/b" = 0', 'mqtt.mqueue_priorities = "a/b" = 0: expected "disabled" or a table of topics'),
        ('"a/b" = 256', 'mqtt.mqueue_priorities = "a/b" = 256: expected "disabled" or a table of topics'),
        ('"a/b" = high', 'mqtt.mqueue_priorities = "a/b" = high: expected "disabled" or a table of topics'),
    ],
)
def test_a_priority_that_emqx_would_not_take_is_an_error(entry: str, said: str) -> None:
    with pytest.raises(ImportFileError, match=re.escape(said)):
        convert(EMQX, read(f"mqtt.mqueue_priorities {{ {entry} }}\n", MAPS))


def test_a_filter_that_is_none_stays_out_with_its_name() -> None:
    """EMQX takes any text there, though no topic can match it."""
    result = convert(EMQX, read('mqtt.mqueue_priorities { "fine" = 3, "a/#/b" = 9 }\n', MAPS))
    assert "mqtt.mqueue_priorities" not in result.taken
    assert any('"a/#/b" = 9' in remark and "priority from 1 to 255" in remark for remark in result.remarks)


def test_a_strategy_that_is_not_here_is_told() -> None:
    result = convert(EMQX, [Given("mqtt.shared_subscription_strategy", "random", 4)])
    assert not result.taken
    assert result.remarks[0].startswith('line 4: mqtt.shared_subscription_strategy: no counterpart for "random": ')

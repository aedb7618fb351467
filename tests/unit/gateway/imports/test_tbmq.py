"""TBMQ's documented settings: each is known, by key and by variable, and its default carries over."""

import pytest

from gateway.imports.convert import convert
from gateway.imports.table import Given, Mapped
from gateway.imports.tbmq import TBMQ
from gateway.settings.table import TABLE

_DEVICE = "mqtt.persistent-session.device.persisted-messages."
_APP = "mqtt.persistent-session.app.persisted-messages."
_TOPIC = "TB_KAFKA_APP_PERSISTED_MSG_TOPIC_PROPERTIES"
_APP_QUEUE = "queue.application-persisted-msg."
_RATES = "mqtt.rate-limits."
DOCUMENTED = [
    # key of the yml, variable, default, our key or "" where there is none
    ("mqtt.write-and-flush", "MQTT_MSG_WRITE_AND_FLUSH", "true", "mqtt.write-and-flush"),
    ("mqtt.buffered-msg-count", "MQTT_BUFFERED_MSG_COUNT", "5", "mqtt.buffered-msg-count"),
    (
        "mqtt.buffered-delivery.session-cache-max-size",
        "MQTT_BUFFERED_CACHE_MAX_SIZE",
        "10000",
        "mqtt.buffered-delivery.session-cache-max-size",
    ),
    (
        "mqtt.buffered-delivery.session-cache-expiration-ms",
        "MQTT_BUFFERED_CACHE_EXPIRY_MS",
        "300000",
        "mqtt.buffered-delivery.session-cache-expiration-ms",
    ),
    (
        "mqtt.buffered-delivery.scheduler-execution-interval-ms",
        "MQTT_BUFFERED_SCHEDULER_INTERVAL_MS",
        "100",
        "mqtt.buffered-delivery.scheduler-execution-interval-ms",
    ),
    (
        "mqtt.buffered-delivery.idle-session-flush-timeout-ms",
        "MQTT_BUFFERED_IDLE_FLUSH_MS",
        "200",
        "mqtt.buffered-delivery.idle-session-flush-timeout-ms",
    ),
    (_DEVICE + "limit", "MQTT_PERSISTENT_SESSION_DEVICE_PERSISTED_MESSAGES_LIMIT", "10000", _DEVICE + "limit"),
    (_DEVICE + "ttl", "MQTT_PERSISTENT_SESSION_DEVICE_PERSISTED_MESSAGES_TTL", "604800", _DEVICE + "ttl"),
    (_DEVICE + "write-and-flush", "MQTT_PERSISTENT_MSG_WRITE_AND_FLUSH", "true", _DEVICE + "write-and-flush"),
    (_DEVICE + "buffered-msg-count", "MQTT_PERSISTENT_BUFFERED_MSG_COUNT", "5", _DEVICE + "buffered-msg-count"),
    (_APP + "write-and-flush", "MQTT_APP_MSG_WRITE_AND_FLUSH", "false", _APP + "write-and-flush"),
    (_APP + "buffered-msg-count", "MQTT_APP_BUFFERED_MSG_COUNT", "10", _APP + "buffered-msg-count"),
    ("mqtt.max-in-flight-msgs", "MQTT_MAX_IN_FLIGHT_MSGS", "1000", "mqtt.receive_maximum"),
    ("mqtt.flow-control.enabled", "MQTT_FLOW_CONTROL_ENABLED", "true", ""),
    ("mqtt.flow-control.timeout", "MQTT_FLOW_CONTROL_TIMEOUT", "1000", ""),
    ("mqtt.flow-control.ttl", "MQTT_FLOW_CONTROL_TTL", "600", ""),
    (
        "mqtt.flow-control.delayed-queue-max-size",
        "MQTT_FLOW_CONTROL_DELAYED_QUEUE_MAX_SIZE",
        "1000",
        "mqtt.max_mqueue_len",
    ),
    ("mqtt.flow-control.mqtt3x-receive-max", "MQTT_FLOW_CONTROL_MQTT_3X_RECEIVE_MAX", "65535", "mqtt.max_inflight"),
    ("mqtt.pre-connect-queue.max-size", "MQTT_PRE_CONNECT_QUEUE_MAX_SIZE", "1000", ""),
    ("mqtt.keep-alive.max-keep-alive", "MQTT_KEEP_ALIVE_MAX_KEEP_ALIVE_SEC", "600", ""),
    ("mqtt.keep-alive.monitoring-delay-ms", "MQTT_KEEP_ALIVE_MONITORING_DELAY_MS", "1000", ""),
    ("mqtt.client-session-expiry.cron", "MQTT_CLIENT_SESSION_EXPIRY_CRON", "0 0 * ? * *", ""),
    (
        "mqtt.client-session-expiry.max-expiry-interval",
        "MQTT_CLIENT_SESSION_EXPIRY_MAX_EXPIRY_INTERVAL",
        "604800",
        "mqtt.max_session_expiry_interval",
    ),
    ("mqtt.client-session-expiry.ttl", "MQTT_CLIENT_SESSION_EXPIRY_TTL", "604800", "mqtt.session_expiry_interval"),
    ("mqtt.topic.max-segments-count", "MQTT_TOPIC_MAX_SEGMENTS_COUNT", "0", "mqtt.max_topic_levels"),
    ("mqtt.topic.alias-max", "MQTT_TOPIC_ALIAS_MAX", "10", "mqtt.max_topic_alias"),
    ("mqtt.topic.min-length-for-alias-replacement", "MQTT_TOPIC_MIN_LENGTH_FOR_ALIAS_REPLACEMENT", "50", ""),
    (
        "mqtt.shared-subscriptions.processing-type",
        "MQTT_SHARED_SUBSCRIPTIONS_PROCESSING_TYPE",
        "ROUND_ROBIN",
        "mqtt.shared_subscription_strategy",
    ),
    ("mqtt.sessions-limit", "MQTT_SESSIONS_LIMIT", "0", "mqtt.max_connections"),
    ("mqtt.application-clients-limit", "MQTT_APPLICATION_CLIENTS_LIMIT", "0", ""),
    ("mqtt.version-3-1.max-client-id-length", "MQTT_3_1_MAX_CLIENT_ID_LENGTH", "1024", ""),
    ("mqtt.retransmission.enabled", "MQTT_RETRANSMISSION_ENABLED", "false", ""),
    ("mqtt.connect.threads", "MQTT_CONNECT_THREADS", "4", ""),
    (_RATES + "total.enabled", "MQTT_TOTAL_RATE_LIMITS_ENABLED", "false", _RATES + "total.enabled"),
    (_RATES + "total.config", "MQTT_TOTAL_RATE_LIMITS_CONFIG", "1000:1,50000:60", _RATES + "total.config"),
    (
        _RATES + "incoming-publish.enabled",
        "MQTT_INCOMING_RATE_LIMITS_ENABLED",
        "false",
        _RATES + "incoming-publish.enabled",
    ),
    (
        _RATES + "incoming-publish.client-config",
        "MQTT_INCOMING_RATE_LIMITS_CLIENT_CONFIG",
        "10:1,300:60",
        _RATES + "incoming-publish.client-config",
    ),
    ("mqtt.rate-limits.outgoing-publish.enabled", "MQTT_OUTGOING_RATE_LIMITS_ENABLED", "false", ""),
    ("mqtt.rate-limits.outgoing-publish.client-config", "MQTT_OUTGOING_RATE_LIMITS_CLIENT_CONFIG", "10:1,300:60", ""),
    (
        "mqtt.rate-limits.device-persisted-messages.enabled",
        "MQTT_DEVICE_PERSISTED_MSGS_RATE_LIMITS_ENABLED",
        "false",
        "",
    ),
    (
        "mqtt.rate-limits.device-persisted-messages.config",
        "MQTT_DEVICE_PERSISTED_MSGS_RATE_LIMITS_CONFIG",
        "100:1,1000:60",
        "",
    ),
    (
        "mqtt.rate-limits.application-persisted-messages.enabled",
        "MQTT_APPLICATION_PERSISTED_MSGS_RATE_LIMITS_ENABLED",
        "false",
        "",
    ),
    (
        "mqtt.rate-limits.application-persisted-messages.client-config",
        "MQTT_APPLICATION_PERSISTED_MSGS_RATE_LIMITS_CLIENT_CONFIG",
        "100:1,1000:60",
        "application_log.drain_rate",
    ),
    ("listener.write_buffer_high_water_mark", "NETTY_WRITE_BUFFER_HIGH_WATER_MARK", "1280", ""),
    ("listener.write_buffer_low_water_mark", "NETTY_WRITE_BUFFER_LOW_WATER_MARK", "640", ""),
    ("listener.tcp.netty.max_payload_size", "TCP_NETTY_MAX_PAYLOAD_SIZE", "65536", "mqtt.max_packet_size"),
    ("listener.ssl.netty.max_payload_size", "SSL_NETTY_MAX_PAYLOAD_SIZE", "65536", "mqtt.max_packet_size"),
    ("listener.ws.netty.max_payload_size", "WS_NETTY_MAX_PAYLOAD_SIZE", "65536", "mqtt.max_packet_size"),
    ("listener.wss.netty.max_payload_size", "WSS_NETTY_MAX_PAYLOAD_SIZE", "65536", "mqtt.max_packet_size"),
    (_APP_QUEUE + "poll-interval", "TB_APP_PERSISTED_MSG_POLL_INTERVAL", "100", ""),
    (_APP_QUEUE + "pack-processing-timeout", "TB_APP_PERSISTED_MSG_PACK_PROCESSING_TIMEOUT", "20000", ""),
    (_APP_QUEUE + "ack-strategy.type", "TB_APP_PERSISTED_MSG_ACK_STRATEGY_TYPE", "RETRY_ALL", ""),
    (_APP_QUEUE + "ack-strategy.retries", "TB_APP_PERSISTED_MSG_ACK_STRATEGY_RETRIES", "3", ""),
    (_APP_QUEUE + "client-id-validation", "TB_APP_PERSISTED_MSG_CLIENT_ID_VALIDATION", "true", ""),
    (_APP_QUEUE + "shared-topic-validation", "TB_APP_PERSISTED_MSG_SHARED_TOPIC_VALIDATION", "true", ""),
    ("queue.device-persisted-msg.consumers-count", "TB_DEVICE_PERSISTED_MSG_CONSUMERS_COUNT", "3", ""),
    ("queue.device-persisted-msg.threads-count", "TB_DEVICE_PERSISTED_MSG_THREADS_COUNT", "3", ""),
    ("queue.device-persisted-msg.poll-interval", "TB_DEVICE_PERSISTED_MSG_POLL_INTERVAL", "100", ""),
    ("queue.device-persisted-msg.ack-strategy.type", "TB_DEVICE_PERSISTED_MSG_ACK_STRATEGY_TYPE", "RETRY_ALL", ""),
    ("queue.msg-all.consumers-count", "TB_MSG_ALL_CONSUMERS_COUNT", "4", ""),
    ("queue.msg-all.ack-strategy.type", "TB_MSG_ALL_ACK_STRATEGY_TYPE", "SKIP_ALL", ""),
    (
        "queue.kafka.application-persisted-msg.topic-properties",
        "TB_KAFKA_APP_PERSISTED_MSG_TOPIC_PROPERTIES",
        "retention.ms:604800000;segment.bytes:26214400;retention.bytes:1048576000;replication.factor:1",
        "application_log.max_bytes application_log.max_age application_log.kafka.replication",
    ),
    (
        "queue.kafka.application-persisted-msg.additional-consumer-config",
        "TB_KAFKA_APP_PERSISTED_MSG_ADDITIONAL_CONSUMER_CONFIG",
        "max.poll.records:200",
        "application_log.kafka.pack",
    ),
    ("queue.kafka.bootstrap.servers", "TB_KAFKA_SERVERS", "localhost:9092", "application_log.kafka.servers"),
    ("queue.kafka.enable-topic-deletion", "TB_KAFKA_ENABLE_TOPIC_DELETION", "true", ""),
    ("queue.kafka.msg-all.topic", "TB_KAFKA_MSG_ALL_TOPIC", "tbmq.msg.all", ""),
    ("queue.kafka.msg-all.topic-properties", "TB_KAFKA_MSG_ALL_TOPIC_PROPERTIES", "retention.ms:604800000", ""),
    ("queue.kafka.device-persisted-msg.topic", "TB_KAFKA_DEVICE_PERSISTED_MSG_TOPIC", "tbmq.msg.persisted", ""),
    ("queue.kafka.default.producer.acks", "TB_KAFKA_DEFAULT_PRODUCER_ACKS", "1", ""),
    ("queue.kafka.default.consumer.max-poll-records", "TB_KAFKA_DEFAULT_CONSUMER_MAX_POLL_RECORDS", "2000", ""),
    ("queue.kafka.kafka-prefix", "TB_KAFKA_PREFIX", "", "application_log.kafka.prefix"),
    ("lettuce.auto-flush", "REDIS_LETTUCE_CMDS_AUTO_FLUSH_ENABLED", "true", ""),
    ("lettuce.buffered-commands", "REDIS_LETTUCE_CMDS_BUFFERED_CMDS_COUNT", "5", ""),
    ("lettuce.flush-interval-ms", "REDIS_LETTUCE_CMDS_FLUSH_INTERVAL_MS", "5", ""),
    (
        "actors.persisted-device.wait-before-actor-stop-minutes",
        "ACTORS_SYSTEM_PERSISTED_DEVICE_WAIT_BEFORE_ACTOR_STOP_MINUTES",
        "5",
        "",
    ),
    ("security.unauthorized-clients.enabled", "SECURITY_UNAUTH_CLIENTS_ENABLED", "true", ""),
    ("sql.ttl.unauthorized-client.ttl", "SQL_TTL_UNAUTHORIZED_CLIENT_TTL", "259200", ""),
    ("blocked-client.cleanup.period", "BLOCKED_CLIENT_CLEANUP_PERIOD_MINUTES", "5", ""),
    ("blocked-client.cleanup.ttl", "BLOCKED_CLIENT_CLEANUP_TTL_MINUTES", "10080", ""),
    ("stats.enabled", "STATS_ENABLED", "true", ""),
    ("stats.print-interval-ms", "STATS_PRINT_INTERVAL_MS", "60000", ""),
    ("management.endpoints.web.exposure.include", "METRICS_ENDPOINTS_EXPOSE", "health,info,prometheus", ""),
    ("historical-data-report.interval", "HISTORICAL_DATA_REPORT_INTERVAL", "1", ""),
]


@pytest.mark.parametrize(("key", "env", "default", "ours"), DOCUMENTED)
def test_each_documented_setting_is_known(key: str, env: str, default: str, ours: str) -> None:
    assert TBMQ.find(key) == TBMQ.find(env)
    rows = TBMQ.find(key)
    assert " ".join(row.target for row in rows if isinstance(row, Mapped)) == ours
    by_key, by_env = (convert(TBMQ, [Given(name, default, 7)]) for name in (key, env))
    assert {name: taken.value for name, taken in by_key.taken.items()} == {
        name: taken.value for name, taken in by_env.taken.items()
    }
    if not ours:
        (remark,) = by_env.remarks
        assert remark.startswith(f"line 7: {env}: no counterpart: ")
        assert len(remark) > len(f"line 7: {env}: no counterpart: ") + 10
    elif any(row.switch for row in rows if isinstance(row, Mapped)):
        assert not by_env.taken
        assert "not imported: it is in force only with" in by_env.remarks[0]
    else:
        assert list(by_env.taken) == ours.split()


def test_every_row_is_documented_or_a_group_and_every_target_a_setting() -> None:
    documented = {key for key, *_ in DOCUMENTED}
    assert {row.key for row in TBMQ.rows if not row.key.endswith("*")} <= documented
    assert {row.target for row in TBMQ.rows if isinstance(row, Mapped)} <= set(TABLE)


@pytest.mark.parametrize(
    ("env", "text", "ours", "value"),
    [
        ("MQTT_SESSIONS_LIMIT", "0", "mqtt.max_connections", 0),
        ("MQTT_SESSIONS_LIMIT", "250", "mqtt.max_connections", 250),
        (
            "MQTT_CLIENT_SESSION_EXPIRY_TTL",
            "-1",
            "mqtt.session_expiry_interval",
            TABLE["mqtt.session_expiry_interval"].kind.parse("never"),
        ),
        ("MQTT_CLIENT_SESSION_EXPIRY_TTL", "3600", "mqtt.session_expiry_interval", 3600),
        ("MQTT_CLIENT_SESSION_EXPIRY_MAX_EXPIRY_INTERVAL", "86400", "mqtt.max_session_expiry_interval", 86400),
        ("MQTT_PERSISTENT_SESSION_DEVICE_PERSISTED_MESSAGES_LIMIT", "0", _DEVICE + "limit", 0),
        ("MQTT_PERSISTENT_SESSION_DEVICE_PERSISTED_MESSAGES_LIMIT", "10000", _DEVICE + "limit", 10000),
        ("MQTT_PERSISTENT_SESSION_DEVICE_PERSISTED_MESSAGES_TTL", "604800", _DEVICE + "ttl", 604800),
        (
            "MQTT_SHARED_SUBSCRIPTIONS_PROCESSING_TYPE",
            "ROUND_ROBIN",
            "mqtt.shared_subscription_strategy",
            "round_robin",
        ),
        (_TOPIC, "retention.ms:604800000;segment.bytes:1", "application_log.max_age", 604_800),
        (_TOPIC, "retention.bytes:1048576000", "application_log.max_bytes", 1_048_576_000),
        (_TOPIC, "retention.ms:-1;retention.bytes:-1", "application_log.max_bytes", 0),
        ("MQTT_APP_MSG_WRITE_AND_FLUSH", "TRUE", _APP + "write-and-flush", True),
    ],
)
def test_values_keep_their_meaning(env: str, text: str, ours: str, value: object) -> None:
    assert convert(TBMQ, [Given(env, text, 1)]).taken[ours].value == value


def test_of_the_payload_limits_the_largest_is_taken() -> None:
    sizes = {"TCP": "70000", "SSL": "90000", "WS": "65536"}
    given = [Given(f"{name}_NETTY_MAX_PAYLOAD_SIZE", size, 1) for name, size in sizes.items()]
    for order in (given, given[::-1]):
        taken = convert(TBMQ, order).taken["mqtt.max_packet_size"]
        assert taken.value == 90000
        assert "SSL_NETTY_MAX_PAYLOAD_SIZE" in taken.source


def test_what_differs_is_said() -> None:
    env = "MQTT_PERSISTENT_SESSION_DEVICE_PERSISTED_MESSAGES_LIMIT"
    (remark,) = convert(TBMQ, [Given(env, "10000", 3)]).remarks
    assert remark.startswith(f"line 3: {env}: {_DEVICE}limit differs: ")
    assert "dropped" in remark and "pushed back" in remark


def test_pacing_is_carried_over_where_it_is_switched_on() -> None:
    on, off, rates = (
        Given("MQTT_APPLICATION_PERSISTED_MSGS_RATE_LIMITS_ENABLED", "true", 1),
        Given("MQTT_APPLICATION_PERSISTED_MSGS_RATE_LIMITS_ENABLED", "false", 1),
        Given("MQTT_APPLICATION_PERSISTED_MSGS_RATE_LIMITS_CLIENT_CONFIG", "100:1,1000:60", 2),
    )
    assert convert(TBMQ, [on, rates]).taken["application_log.drain_rate"].value == 16
    assert not convert(TBMQ, [off, rates]).taken


def test_a_property_that_is_not_there_changes_nothing() -> None:
    result = convert(TBMQ, [Given(_TOPIC, "segment.bytes:26214400", 3)])
    assert not result.taken

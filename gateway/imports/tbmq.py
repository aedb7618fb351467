"""TBMQ's settings, by key and environment variable, and ours beside them."""

from typing import Final

from gateway.imports.readings import Flag, Hosts, Literal, Property, RateList, Rates, Whole, Word
from gateway.imports.table import Mapped, Origin, Row, Unmapped

_COUNT: Final = 2**31 - 1
_DEVICE: Final = "mqtt.persistent-session.device.persisted-messages."
_APP: Final = "mqtt.persistent-session.app.persisted-messages."
_PACE: Final = "mqtt.rate-limits.application-persisted-messages."
_TOPIC: Final = "queue.kafka.application-persisted-msg.topic-properties"
_PAYLOAD: Final = "one limit for all listeners, on the whole packet; the largest of TBMQ's is taken"
_RATES: Final = "what is too much waits on the client's side and is read later, where TBMQ drops it or disconnects"
_CONSUMER: Final = "queue.kafka.application-persisted-msg.additional-consumer-config"
_PACKS: Final = "a message is settled for itself, whatever its pack, and sent again when its client reconnects"
_KAFKA: Final = "messages are in Forebay's own store, bounded by store.max_bytes; APPLICATIONs may have theirs in Kafka"
_ENGINE: Final = 'in force only with application_log.engine = "kafka": Forebay needs no Kafka'
_SHARED: Final = "shared subscriptions are queues of the store, and their filters no names of topics"
_NAMES: Final = "a client id that is no name of a Kafka topic is always hashed there"


def _same(key: str, env: str, reading: Flag | Whole, differs: str = "") -> Row:
    """Ours has the very name of TBMQ's."""
    return Mapped(key, key, reading, differs, env)


def _payload(transport: str) -> Row:
    key, env = f"listener.{transport}.netty.max_payload_size", f"{transport.upper()}_NETTY_MAX_PAYLOAD_SIZE"
    return Mapped(key, "mqtt.max_packet_size", Whole(1, _COUNT), _PAYLOAD, env, largest=True)


_DELIVERY: Final[tuple[Row, ...]] = (
    _same("mqtt.write-and-flush", "MQTT_MSG_WRITE_AND_FLUSH", Flag()),
    _same("mqtt.buffered-msg-count", "MQTT_BUFFERED_MSG_COUNT", Whole(0, _COUNT)),
    _same(_DEVICE + "write-and-flush", "MQTT_PERSISTENT_MSG_WRITE_AND_FLUSH", Flag()),
    _same(_DEVICE + "buffered-msg-count", "MQTT_PERSISTENT_BUFFERED_MSG_COUNT", Whole(0, _COUNT)),
    _same(_APP + "write-and-flush", "MQTT_APP_MSG_WRITE_AND_FLUSH", Flag()),
    _same(_APP + "buffered-msg-count", "MQTT_APP_BUFFERED_MSG_COUNT", Whole(0, _COUNT)),
    _same("mqtt.buffered-delivery.session-cache-max-size", "MQTT_BUFFERED_CACHE_MAX_SIZE", Whole(0, _COUNT)),
    _same("mqtt.buffered-delivery.session-cache-expiration-ms", "MQTT_BUFFERED_CACHE_EXPIRY_MS", Whole(0, _COUNT)),
    _same(
        "mqtt.buffered-delivery.scheduler-execution-interval-ms",
        "MQTT_BUFFERED_SCHEDULER_INTERVAL_MS",
        Whole(1, _COUNT),
    ),
    _same("mqtt.buffered-delivery.idle-session-flush-timeout-ms", "MQTT_BUFFERED_IDLE_FLUSH_MS", Whole(0, _COUNT)),
    _same(
        _DEVICE + "limit",
        "MQTT_PERSISTENT_SESSION_DEVICE_PERSISTED_MESSAGES_LIMIT",
        Whole(0, 65535, off="unlimited"),
        "with it the oldest messages are dropped as in TBMQ; without it nothing is dropped by count, "
        "and publishers are pushed back when the store is full (store.max_bytes)",
    ),
    _same(
        _DEVICE + "ttl",
        "MQTT_PERSISTENT_SESSION_DEVICE_PERSISTED_MESSAGES_TTL",
        Whole(None, off="never"),
        "with it messages are dropped by age as in TBMQ; without it they stay until delivered",
    ),
)

_MQTT: Final[tuple[Row, ...]] = (
    Mapped(
        "mqtt.max-in-flight-msgs",
        "mqtt.receive_maximum",
        Whole(1, _COUNT),
        "above it TBMQ disconnects; Forebay tells 5.0 clients the number and reads 3.1.1 clients no further",
        "MQTT_MAX_IN_FLIGHT_MSGS",
    ),
    Mapped(
        "mqtt.flow-control.mqtt3x-receive-max",
        "mqtt.max_inflight",
        Whole(1, 65535),
        "it bounds 5.0 clients too, when their Receive Maximum is higher",
        "MQTT_FLOW_CONTROL_MQTT_3X_RECEIVE_MAX",
    ),
    Mapped(
        "mqtt.flow-control.delayed-queue-max-size",
        "mqtt.max_mqueue_len",
        Whole(0, _COUNT),
        'a full queue drops the oldest, QoS 0 first, TBMQ the newest (mqtt.mqueue_policy = "drop_newest" does that)',
        "MQTT_FLOW_CONTROL_DELAYED_QUEUE_MAX_SIZE",
    ),
    Mapped(
        "mqtt.client-session-expiry.max-expiry-interval",
        "mqtt.max_session_expiry_interval",
        Whole(0, 2**32 - 1),
        env="MQTT_CLIENT_SESSION_EXPIRY_MAX_EXPIRY_INTERVAL",
    ),
    Mapped(
        "mqtt.client-session-expiry.ttl",
        "mqtt.session_expiry_interval",
        Whole(None, off="never"),
        "only for 3.1 and 3.1.1 clients: the session of a 5.0 client without an expiry ends with its connection",
        "MQTT_CLIENT_SESSION_EXPIRY_TTL",
    ),
    Mapped(
        "mqtt.topic.max-segments-count",
        "mqtt.max_topic_levels",
        Whole(0, 65535, off=65535),
        env="MQTT_TOPIC_MAX_SEGMENTS_COUNT",
    ),
    Mapped("mqtt.topic.alias-max", "mqtt.max_topic_alias", Whole(0, 65535), env="MQTT_TOPIC_ALIAS_MAX"),
    Mapped(
        "mqtt.shared-subscriptions.processing-type",
        "mqtt.shared_subscription_strategy",
        Word("ROUND_ROBIN", small=True),
        env="MQTT_SHARED_SUBSCRIPTIONS_PROCESSING_TYPE",
    ),
    Mapped(
        "mqtt.sessions-limit",
        "mqtt.max_connections",
        Whole(0, _COUNT, off="unlimited"),
        "it counts connections; TBMQ counts the sessions of the cluster, those of absent clients as well",
        "MQTT_SESSIONS_LIMIT",
    ),
    _payload("tcp"),
    _payload("ssl"),
    _payload("ws"),
    _payload("wss"),
)

_INCOMING: Final[tuple[Row, ...]] = (
    _same("mqtt.rate-limits.total.enabled", "MQTT_TOTAL_RATE_LIMITS_ENABLED", Flag()),
    Mapped(
        "mqtt.rate-limits.total.config",
        "mqtt.rate-limits.total.config",
        RateList(),
        "it counts what clients publish; TBMQ counts what goes out to them as well",
        "MQTT_TOTAL_RATE_LIMITS_CONFIG",
    ),
    _same("mqtt.rate-limits.incoming-publish.enabled", "MQTT_INCOMING_RATE_LIMITS_ENABLED", Flag()),
    Mapped(
        "mqtt.rate-limits.incoming-publish.client-config",
        "mqtt.rate-limits.incoming-publish.client-config",
        RateList(),
        _RATES,
        "MQTT_INCOMING_RATE_LIMITS_CLIENT_CONFIG",
    ),
)

_LOG: Final[tuple[Row, ...]] = (
    Mapped(
        _TOPIC,
        "application_log.max_bytes",
        Property("retention.bytes", "", "unlimited"),
        "it bounds what is unread; what was read is gone, unless application_log.keep_bytes holds it back",
        "TB_KAFKA_APP_PERSISTED_MSG_TOPIC_PROPERTIES",
    ),
    Mapped(
        _TOPIC,
        "application_log.max_age",
        Property("retention.ms", "ms", "never"),
        env="TB_KAFKA_APP_PERSISTED_MSG_TOPIC_PROPERTIES",
    ),
    Mapped(
        _TOPIC,
        "application_log.kafka.replication",
        Property("replication.factor", "", "cluster"),
        _ENGINE,
        "TB_KAFKA_APP_PERSISTED_MSG_TOPIC_PROPERTIES",
    ),
    Mapped(
        _CONSUMER,
        "application_log.kafka.pack",
        Property("max.poll.records", "", 200),
        _ENGINE,
        "TB_KAFKA_APP_PERSISTED_MSG_ADDITIONAL_CONSUMER_CONFIG",
    ),
    Mapped("queue.kafka.bootstrap.servers", "application_log.kafka.servers", Hosts(), _ENGINE, "TB_KAFKA_SERVERS"),
    Mapped("queue.kafka.kafka-prefix", "application_log.kafka.prefix", Literal(), _ENGINE, "TB_KAFKA_PREFIX"),
    Unmapped(
        "queue.kafka.enable-topic-deletion",
        "the topic of an APPLICATION is deleted when its session ends",
        "TB_KAFKA_ENABLE_TOPIC_DELETION",
    ),
    Unmapped(
        _PACE + "enabled",
        "a rate is a switch in itself: see application_log.drain_rate",
        "MQTT_APPLICATION_PERSISTED_MSGS_RATE_LIMITS_ENABLED",
    ),
    Mapped(
        _PACE + "client-config",
        "application_log.drain_rate",
        Rates(),
        "one rate, the lowest of TBMQ's limits; it holds for what waited, not for what comes while nothing waits",
        "MQTT_APPLICATION_PERSISTED_MSGS_RATE_LIMITS_CLIENT_CONFIG",
        switch=(_PACE + "enabled", "MQTT_APPLICATION_PERSISTED_MSGS_RATE_LIMITS_ENABLED"),
    ),
)

_WITHOUT: Final[tuple[Row, ...]] = (
    Unmapped(
        "mqtt.flow-control.enabled",
        "the inflight window is always in force (mqtt.max_inflight)",
        "MQTT_FLOW_CONTROL_ENABLED",
    ),
    Unmapped(
        "mqtt.flow-control.timeout",
        "no thread sleeps between deliveries: an acknowledgement releases the next message at once",
        "MQTT_FLOW_CONTROL_TIMEOUT",
    ),
    Unmapped(
        "mqtt.flow-control.ttl",
        "messages behind a full window are bounded by number and bytes, not by age",
        "MQTT_FLOW_CONTROL_TTL",
    ),
    Unmapped(
        "mqtt.pre-connect-queue.max-size",
        "nothing is queued before CONNECT is answered: the connection is read no further until then",
        "MQTT_PRE_CONNECT_QUEUE_MAX_SIZE",
    ),
    Unmapped(
        "mqtt.keep-alive.max-keep-alive",
        "there is no upper bound; mqtt.server_keepalive would force one value on all 5.0 clients, lower ones too",
        "MQTT_KEEP_ALIVE_MAX_KEEP_ALIVE_SEC",
    ),
    Unmapped(
        "mqtt.keep-alive.monitoring-delay-ms",
        "each connection's keep alive is due at its own time, there is no round of checks",
        "MQTT_KEEP_ALIVE_MONITORING_DELAY_MS",
    ),
    Unmapped(
        "mqtt.client-session-expiry.cron",
        "sessions expire when their time is over, there is no sweep",
        "MQTT_CLIENT_SESSION_EXPIRY_CRON",
    ),
    Unmapped(
        "mqtt.topic.min-length-for-alias-replacement",
        "a topic gets an alias whatever its length, as long as the client takes aliases",
        "MQTT_TOPIC_MIN_LENGTH_FOR_ALIAS_REPLACEMENT",
    ),
    Unmapped(
        "mqtt.application-clients-limit",
        "the number of APPLICATION clients has no limit of its own",
        "MQTT_APPLICATION_CLIENTS_LIMIT",
    ),
    Unmapped(
        "mqtt.retransmission.*",
        "a message is sent again when its client reconnects, not on the same connection",
        "MQTT_RETRANSMISSION_*",
    ),
    Unmapped(
        "mqtt.version-3-1.max-client-id-length",
        "mqtt.max_clientid_len holds for clients of every version",
        "MQTT_3_1_MAX_CLIENT_ID_LENGTH",
    ),
    Unmapped("mqtt.*", "Forebay has nothing like it", "MQTT_*"),
    Unmapped("mqtt.rate-limits.total.*", "the limit has no schedule of its own", "MQTT_TOTAL_RATE_LIMITS_*"),
    Unmapped("mqtt.rate-limits.*", "Forebay has no rate limit like it"),
    Unmapped(
        "mqtt.rate-limits.outgoing-publish.*",
        "what goes out has no rate limit: a slow subscriber is held by its inflight window and its queue",
        "MQTT_OUTGOING_RATE_LIMITS_*",
    ),
    Unmapped(
        "mqtt.rate-limits.device-persisted-messages.*",
        "TBMQ drops what exceeds this rate; Forebay keeps it within store.max_bytes",
        "MQTT_DEVICE_PERSISTED_MSGS_RATE_LIMITS_*",
    ),
    Unmapped(
        "listener.write_buffer_high_water_mark",
        "when a connection counts as congested is not a setting",
        "NETTY_WRITE_BUFFER_HIGH_WATER_MARK",
    ),
    Unmapped(
        "listener.write_buffer_low_water_mark",
        "when a connection counts as congested is not a setting",
        "NETTY_WRITE_BUFFER_LOW_WATER_MARK",
    ),
    Unmapped("listener.*", "listeners are not imported: see listen, listeners.tls and tls.cert", "LISTENER_*"),
    Unmapped("queue.application-persisted-msg.*", _PACKS, "TB_APP_PERSISTED_MSG_*"),
    Unmapped(
        "queue.application-persisted-msg.client-id-validation", _NAMES, "TB_APP_PERSISTED_MSG_CLIENT_ID_VALIDATION"
    ),
    Unmapped(
        "queue.application-persisted-msg.shared-topic-validation",
        _SHARED,
        "TB_APP_PERSISTED_MSG_SHARED_TOPIC_VALIDATION",
    ),
    Unmapped("queue.device-persisted-msg.*", _PACKS, "TB_DEVICE_PERSISTED_MSG_*"),
    Unmapped("queue.msg-all.*", _KAFKA, "TB_MSG_ALL_*"),
    Unmapped("queue.kafka.*", _KAFKA, "TB_KAFKA_*"),
    Unmapped("queue.*", _KAFKA),
    Unmapped("lettuce.*", "Forebay needs no Redis: messages are in its own store", "REDIS_*"),
    Unmapped("actors.*", "Forebay has no actors: one event loop and one writer", "ACTORS_*"),
    Unmapped("security.*", "users are not imported: see forebay user, password_file and allow_anonymous", "SECURITY_*"),
    Unmapped("sql.*", "Forebay needs no PostgreSQL", "SQL_*"),
    Unmapped("spring.*", "Forebay needs no PostgreSQL", "SPRING_*"),
    Unmapped("blocked-client.*", "who is blocked is not imported: see forebay user ban", "BLOCKED_CLIENT_*"),
    Unmapped("stats.*", "figures are in forebay status and under $SYS (sys_interval)", "STATS_*"),
    Unmapped("management.*", "figures are in forebay status and under $SYS (sys_interval)", "METRICS_*"),
    Unmapped("historical-data-report.*", "Forebay keeps no history of its figures", "HISTORICAL_DATA_*"),
)

TBMQ: Final = Origin("TBMQ", _DELIVERY + _MQTT + _INCOMING + _LOG + _WITHOUT)

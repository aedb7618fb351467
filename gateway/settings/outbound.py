"""How messages go out (docs/delivery.md): the three outbound paths, under the names and with the defaults of TBMQ, and
priorities and repetition, under those of EMQX.
"""

import dataclasses

from gateway.settings.entry import setting
from gateway.settings.kinds import Boolean, Choice, Duration, Integer, Priorities, Size
from gateway.settings.security import SecuritySettings


@dataclasses.dataclass(kw_only=True, slots=True)
class OutboundSettings(SecuritySettings):
    """Part of ``Settings``."""

    mqtt_write_and_flush: bool = setting(
        "mqtt.write-and-flush",
        Boolean(),
        True,
        "Direct path: each message leaves at once; false = messages gather.",
        "write_and_flush",
        "MQTT_MSG_WRITE_AND_FLUSH",
    )
    mqtt_buffered_msg_count: int = setting(
        "mqtt.buffered-msg-count",
        Integer(0, 2**31 - 1),
        5,
        "Direct path: so many messages gather; 0 and 1 = none waits.",
        "buffered_msg_count",
        "MQTT_BUFFERED_MSG_COUNT",
    )
    mqtt_persistent_session_device_persisted_messages_write_and_flush: bool = setting(
        "mqtt.persistent-session.device.persisted-messages.write-and-flush",
        Boolean(),
        True,
        "The same for persistent sessions of type DEVICE.",
        "device_write_and_flush",
        "MQTT_PERSISTENT_MSG_WRITE_AND_FLUSH",
    )
    mqtt_persistent_session_device_persisted_messages_buffered_msg_count: int = setting(
        "mqtt.persistent-session.device.persisted-messages.buffered-msg-count",
        Integer(0, 2**31 - 1),
        5,
        "The same for persistent sessions of type DEVICE.",
        "device_buffered_msg_count",
        "MQTT_PERSISTENT_BUFFERED_MSG_COUNT",
    )
    mqtt_persistent_session_device_persisted_messages_limit: int = setting(
        "mqtt.persistent-session.device.persisted-messages.limit",
        Integer(0, 2**31 - 1, {"unlimited": 0}),
        "unlimited",
        "Messages queued for a DEVICE that it still gets, the newest; the rest is dropped when its turn comes.",
        "device_limit",
        "MQTT_PERSISTENT_SESSION_DEVICE_PERSISTED_MESSAGES_LIMIT",
    )
    mqtt_persistent_session_device_persisted_messages_ttl: int = setting(
        "mqtt.persistent-session.device.persisted-messages.ttl",
        Duration(0, words={"never": 0}),
        "never",
        "Age at which messages queued for a DEVICE are dropped that bring no expiry of their own.",
        "device_ttl_s",
        "MQTT_PERSISTENT_SESSION_DEVICE_PERSISTED_MESSAGES_TTL",
    )
    mqtt_persistent_session_app_persisted_messages_write_and_flush: bool = setting(
        "mqtt.persistent-session.app.persisted-messages.write-and-flush",
        Boolean(),
        False,
        "Persistent sessions of type APPLICATION: false = messages gather within a batch.",
        "app_write_and_flush",
        "MQTT_APP_MSG_WRITE_AND_FLUSH",
    )
    mqtt_persistent_session_app_persisted_messages_buffered_msg_count: int = setting(
        "mqtt.persistent-session.app.persisted-messages.buffered-msg-count",
        Integer(0, 2**31 - 1),
        10,
        "Persistent sessions of type APPLICATION: so many gather within a batch; its end always flushes.",
        "app_buffered_msg_count",
        "MQTT_APP_BUFFERED_MSG_COUNT",
    )
    mqtt_buffered_delivery_session_cache_max_size: int = setting(
        "mqtt.buffered-delivery.session-cache-max-size",
        Integer(0, 2**31 - 1),
        10_000,
        "Connections for which messages may gather; above it those written to longest ago are flushed.",
        "flush_cache_max",
        "MQTT_BUFFERED_CACHE_MAX_SIZE",
    )
    mqtt_buffered_delivery_session_cache_expiration_ms: int = setting(
        "mqtt.buffered-delivery.session-cache-expiration-ms",
        Integer(1, 2**31 - 1),
        300_000,
        "Time without a message after which a connection is no longer one of these and what waits is flushed.",
        "flush_cache_expiration_ms",
        "MQTT_BUFFERED_CACHE_EXPIRY_MS",
    )
    mqtt_buffered_delivery_scheduler_execution_interval_ms: int = setting(
        "mqtt.buffered-delivery.scheduler-execution-interval-ms",
        Integer(1, 2**31 - 1),
        100,
        "Time between two looks at the connections for which messages wait.",
        "flush_interval_ms",
        "MQTT_BUFFERED_SCHEDULER_INTERVAL_MS",
    )
    mqtt_buffered_delivery_idle_session_flush_timeout_ms: int = setting(
        "mqtt.buffered-delivery.idle-session-flush-timeout-ms",
        Integer(0, 2**31 - 1),
        200,
        "Such a look flushes what waits when the last flush is longer ago than this.",
        "flush_idle_ms",
        "MQTT_BUFFERED_IDLE_FLUSH_MS",
    )
    mqtt_mqueue_priorities: list[tuple[str, int]] = setting(
        "mqtt.mqueue_priorities",
        Priorities(),
        {},
        "Topics or filters whose messages have queues of their own, the highest number first; a topic itself wins over "
        "filters, of these the first that matches.",
        "mqueue_priorities",
    )
    mqtt_mqueue_default_priority: str = setting(
        "mqtt.mqueue_default_priority",
        Choice("lowest", "highest"),
        "lowest",
        "Where all other topics stand when there are priorities.",
        "mqueue_default_priority",
    )
    mqtt_max_waiting_bytes: int = setting(
        "mqtt.max_waiting_bytes",
        Size(words={"unlimited": 0}),
        "256MiB",
        "RAM for all slow clients together: queues of sessions that end with their connection, and what sockets do not "
        "take.",
        "waiting_bytes_max",
    )
    mqtt_max_subscriptions: int = setting(
        "mqtt.max_subscriptions",
        Integer(1, 2**31 - 1),
        50_000,
        "Subscriptions of one client; one more is refused in the SUBACK.",
        "max_subscriptions",
    )
    delayed_max_messages: int = setting(
        "delayed.max_messages",
        Integer(1, 2**31 - 1, {"unlimited": 0}),
        100_000,
        "Messages that may wait under $delayed/ (docs/delayed.md); one more is refused.",
        "delayed_messages_max",
    )
    delayed_max_bytes: int = setting(
        "delayed.max_bytes",
        Size(1, words={"unlimited": 0}),
        "64MiB",
        "The same in bytes, on disk and in RAM.",
        "delayed_bytes_max",
    )
    mqtt_retry_interval: int = setting(
        "mqtt.retry_interval",
        Duration(1, 86400, {"never": 0}, ms=True),
        "never",
        "A 3.1 or 3.1.1 client is sent again what it has not acknowledged for so long; 5.0 forbids it.",
        "retry_ms",
    )
    mqtt_await_rel_timeout: int = setting(
        "mqtt.await_rel_timeout",
        Duration(1, 86400, {"never": 0}, ms=True),
        "never",
        "After so long without a PUBREL an incoming QoS 2 id is free again, and the message may come twice.",
        "await_rel_ms",
    )

"""EMQX's settings, by dotted key, and ours beside them."""

from typing import Final

from gateway.imports.readings import Bytes, Factor, Flag, Priorities, Span, Whole, Word
from gateway.imports.table import Mapped, Origin, Row, Unmapped

MAPS: Final = frozenset({"mqtt.mqueue_priorities"})
"""Keys whose value is a table of its own, not a group of settings."""

_STANDARD: Final = "Forebay refuses or passes on what the standard says, there is no switch for it"
_SHED: Final = "memory is bounded by limits on each queue, connections are not shed"
_QUEUES: Final = "a declared queue or stream is a persistent session or a shared subscription here"

_MAPPED: Final[tuple[Row, ...]] = (
    Mapped("mqtt.max_inflight", "mqtt.max_inflight", Whole(1, 65535)),
    Mapped(
        "mqtt.max_mqueue_len",
        "mqtt.max_mqueue_len",
        Whole(0, 2**31 - 1, off="unlimited", words={"infinity": "unlimited"}),
        "only for sessions that end with their connection; persistent ones queue on disk, bounded by store.max_bytes "
        "(mqtt.persistent-session.device.persisted-messages.limit drops by count)",
    ),
    Mapped("mqtt.mqueue_store_qos0", "mqtt.mqueue_store_qos0", Flag()),
    Mapped(
        "mqtt.mqueue_store_qos0",
        "mqtt.mqueue_store_qos0_persistent",
        Flag(),
        "Forebay has a switch of its own for persistent sessions, whose QoS 0 messages are then written to disk",
    ),
    Mapped(
        "mqtt.mqueue_priorities",
        "mqtt.mqueue_priorities",
        Priorities(),
        "a name with + or # is a filter here, in EMQX it is a topic that nobody can publish to",
    ),
    Mapped("mqtt.mqueue_default_priority", "mqtt.mqueue_default_priority", Word("lowest", "highest")),
    Mapped(
        "mqtt.retry_interval",
        "mqtt.retry_interval",
        Span({"infinity": "never"}),
        "only 3.1.1 clients are sent a message again on the same connection, 5.0 forbids it",
    ),
    Mapped(
        "mqtt.max_awaiting_rel",
        "mqtt.receive_maximum",
        Whole(0, 2**31 - 1, off=65535, words={"infinity": 65535}),
        "it counts incoming QoS 1 as well as QoS 2, and pushes the client back instead of disconnecting it",
    ),
    Mapped(
        "mqtt.await_rel_timeout",
        "mqtt.await_rel_timeout",
        Span({"infinity": "never"}),
        "without it an incoming QoS 2 id is kept until its PUBREL comes, which is what exactly once needs",
    ),
    Mapped("mqtt.max_subscriptions", "mqtt.max_subscriptions", Whole(1, 2**31 - 1, words={"infinity": 2**31 - 1})),
    Mapped(
        "delayed.max_delayed_messages",
        "delayed.max_messages",
        Whole(0, 2**31 - 1, off="unlimited"),
        "one more is refused, in EMQX it is acknowledged and dropped; delayed.max_bytes bounds them too",
    ),
    Mapped("flapping_detect.enable", "flapping_detect.enable", Flag()),
    Mapped(
        "flapping_detect.max_count",
        "flapping_detect.max_count",
        Whole(1, 10_000),
        "it counts connections that were let in, in EMQX the ends of connections",
    ),
    Mapped("flapping_detect.window_time", "flapping_detect.window_time", Span({"disabled": "1m"})),
    Mapped("flapping_detect.ban_time", "flapping_detect.ban_time", Span()),
    Mapped("mqtt.upgrade_qos", "mqtt.upgrade_qos", Flag()),
    Mapped("mqtt.session_expiry_interval", "mqtt.session_expiry_interval", Span()),
    Mapped("mqtt.max_session_expiry_interval", "mqtt.max_session_expiry_interval", Span({"infinity": "never"})),
    Mapped("mqtt.message_expiry_interval", "mqtt.message_expiry_interval", Span({"infinity": "never"})),
    Mapped("mqtt.max_packet_size", "mqtt.max_packet_size", Bytes()),
    Mapped("mqtt.max_topic_levels", "mqtt.max_topic_levels", Whole(1, 65535)),
    Mapped("mqtt.max_topic_alias", "mqtt.max_topic_alias", Whole(0, 65535)),
    Mapped("mqtt.max_clientid_len", "mqtt.max_clientid_len", Whole(23, 65535)),
    Mapped("mqtt.keepalive_multiplier", "mqtt.keepalive_multiplier", Factor()),
    Mapped("mqtt.server_keepalive", "mqtt.server_keepalive", Whole(1, 65535, words={"disabled": 0})),
    Mapped("mqtt.idle_timeout", "mqtt.connect_timeout", Span({"infinity": "never"})),
    Mapped(
        "mqtt.shared_subscription_strategy",
        "mqtt.shared_subscription_strategy",
        Word(
            "random",
            "round_robin",
            "round_robin_per_group",
            "sticky",
            "local",
            "hash",
            "hash_topic",
            "hash_clientid",
        ),
    ),
)

_WITHOUT: Final[tuple[Row, ...]] = (
    Unmapped("mqtt.keepalive_check_interval", "each connection's keep alive is due at its own time"),
    Unmapped(
        "mqtt.shared_subscription_initial_sticky_pick", "which member a sticky group starts with is not a setting"
    ),
    Unmapped(
        "mqtt.shared_dispatch_ack_enabled",
        "a durable group keeps each message until a member has acknowledged it, there is no switch for it",
    ),
    Unmapped(
        "broker.shared_dispatch_ack_enabled",
        "a durable group keeps each message until a member has acknowledged it, there is no switch for it",
    ),
    Unmapped("mqtt.exclusive_subscription", "$exclusive/ is not known here"),
    Unmapped("mqtt.ignore_loop_deliver", "3.1.1 clients get their own messages as the standard says; 5.0 has No Local"),
    Unmapped("mqtt.strict_mode", "packets are always checked in full"),
    Unmapped(
        "mqtt.limiter.*",
        "EMQX has rates without a time span: see mqtt.rate-limits.incoming-publish.client-config and connection_rate",
    ),
    Unmapped("limiter.*", "see mqtt.rate-limits.incoming-publish.client-config and connection_rate"),
    Unmapped("mqtt.*", _STANDARD),
    Unmapped("zones.*", "there is one set of settings for all listeners"),
    Unmapped("force_shutdown.*", _SHED),
    Unmapped("overload_protection.*", _SHED),
    Unmapped("banned.*", "who is banned is not imported: see forebay user ban"),
    Unmapped("delayed.enable", "$delayed/ topics are always known"),
    Unmapped("durable_sessions.*", "every persistent session is durable, within store.max_bytes"),
    Unmapped("durable_storage.*", "every persistent session is durable, within store.max_bytes"),
    Unmapped("conn_congestion.*", "there is no alarm for a congested connection"),
    Unmapped("listeners.*", "listeners are not imported: see listen, listeners.tls and tls.cert"),
    Unmapped("bridges.*", "bridges are not imported"),
    Unmapped("connectors.*", "bridges are not imported"),
    Unmapped("actions.*", "bridges are not imported"),
    Unmapped("sources.*", "bridges are not imported"),
    Unmapped("resource_opts.*", "bridges are not imported"),
    Unmapped("mq.*", _QUEUES),
    Unmapped("queues.*", _QUEUES),
    Unmapped("streams.*", _QUEUES),
    Unmapped("authentication*", "users are not imported: see forebay user, password_file and allow_anonymous"),
    Unmapped("authorization.*", "access rules are not imported: see acl and forebay acl"),
    Unmapped("node.*", "Forebay is one process, it has no nodes"),
    Unmapped("cluster.*", "Forebay is one process, it has no nodes"),
    Unmapped("log.*", "see log.level"),
    Unmapped("dashboard.*", "see forebay status"),
    Unmapped("sys_topics.*", "see sys_interval"),
    Unmapped("retainer.*", "retained messages are kept on disk, within store.max_bytes"),
)

EMQX: Final = Origin("EMQX", _MAPPED + _WITHOUT)

"""Every limit of the core in one place; the unit stands last in the name. 0 = no limit unless said otherwise."""

from typing import Final, NamedTuple, final

from gateway.core.acl import Acl

NEVER: Final = 0xFFFFFFFF  # a session expiry interval that never ends, seconds

DROP_OLDEST: Final = 0  # the oldest QoS 0 first, else the oldest
DROP_NEWEST: Final = 1
PUSH_BACK: Final = 2  # stop reading the publisher

# which member of a shared group gets a message
ROUND_ROBIN: Final = 0
LEAST_INFLIGHT: Final = 1
HASH_TOPIC: Final = 2
STICKY: Final = 3

UNSET: Final = -1  # in a rule: what holds for all clients of the type holds for this one


class ClientRule(NamedTuple):
    """Clients by name (patterns with * and ?, "" = any), their type, and how the log of an APPLICATION is read."""

    client_id: str
    username: str
    application: bool
    earliest: int = UNSET  # 1 = a new session starts at the earliest message that the log still has, 0 = at its end
    max_bytes: int = UNSET  # unread; above it the oldest fall off, 0 = no limit
    max_age_s: int = UNSET  # of unread messages; 0 = no limit
    drain_rate: int = UNSET  # messages/s from the queue; 0 = no limit


class OutboundLimits:
    """Of the ways out, and of the log that they are read from."""

    def __init__(self) -> None:
        self.client_types: list[ClientRule] = []  # first match
        self.write_and_flush: bool = True  # direct
        self.buffered_msg_count: int = 5
        self.device_write_and_flush: bool = True
        self.device_buffered_msg_count: int = 5
        self.device_limit: int = 0  # messages that a device's queue keeps, the newest; 0 = all
        self.device_ttl_s: int = 0  # for messages without an expiry of their own
        self.app_write_and_flush: bool = False
        self.app_buffered_msg_count: int = 10
        self.app_start: int = 0  # 1 = earliest; this and the next three where an APPLICATION's rule says nothing
        self.app_max_bytes: int = 0
        self.app_max_age_s: int = 0
        self.app_drain_rate: int = 0
        self.log_keep_bytes: int = 0  # of the log that stays when all of it is settled; 0 = nothing
        self.log_keep_age_s: int = 0
        self.shared_strategy: int = ROUND_ROBIN
        self.flush_cache_max: int = 10_000  # connections
        self.flush_cache_expiration_ms: int = 300_000
        self.flush_interval_ms: int = 100
        self.flush_idle_ms: int = 200


@final
class Limits(OutboundLimits):
    """Values as the settings table gives them; defaults are the product's."""

    def __init__(self) -> None:
        super().__init__()
        self.acl: Acl | None = None  # None = everybody may do everything
        self.max_packet_bytes: int = 1_048_576
        self.max_topic_levels: int = 128
        self.max_clientid_chars: int = 65_535
        self.max_topic_alias: int = 10  # what CONNACK offers to clients (inbound)
        self.max_connections: int = 0
        # messages and seconds in which a client, or all together, may publish so many
        self.client_rate_on: bool = False
        self.client_rate: list[tuple[int, int]] = [(10, 1), (300, 60)]
        self.total_rate_on: bool = False
        self.total_rate: list[tuple[int, int]] = [(1000, 1), (50_000, 60)]
        self.max_inflight: int = 32  # outgoing; min with the client's Receive Maximum
        self.receive_maximum: int = 1000  # inbound, told in CONNACK
        # sessions
        self.server_keep_alive_s: int = 0  # 0 = the client's own stands
        self.retry_ms: int = 0  # 3.1 and 3.1.1: what is not acknowledged is sent again after it, 0 = never
        self.await_rel_ms: int = 0  # an incoming QoS 2 id is given up without a PUBREL after it, 0 = never
        self.keepalive_percent: int = 150
        self.connect_timeout_ms: int = 10_000  # from accept to CONNECT
        self.max_session_expiry_s: int = NEVER
        self.session_expiry_s: int = NEVER  # for 3.1/3.1.1 persistent sessions
        self.min_session_expiry: list[tuple[str, int]] = []  # (client-id pattern with * and ?, seconds), first match
        self.message_expiry_s: int = 0  # for messages without one
        self.upgrade_qos: bool = False
        self.max_mqueue_len: int = 1000  # memory sessions, messages
        self.max_mqueue_bytes: int = 67_108_864  # memory sessions
        self.waiting_bytes_max: int = 268_435_456  # in RAM for slow clients: memory sessions' queues, unsent bytes
        self.max_subscriptions: int = 50_000  # of a session
        self.mqueue_policy: int = DROP_OLDEST
        self.mqueue_priorities: list[tuple[str, int]] = []  # (topic filter, 1 to 255), first match
        self.mqueue_default_priority: str = "lowest"  # or "highest": of all other topics
        self.mqueue_store_qos0: bool = True  # memory sessions
        self.mqueue_store_qos0_persistent: bool = False
        self.window_messages: int = 1000  # of a durable queue, kept in RAM per session
        self.window_bytes: int = 1_048_576
        self.out_high_bytes: int = 1_048_576  # unsent bytes on a connection: congested above, free again below half
        self.pending_bytes_max: int = 67_108_864  # waiting for the disk; above it durable publishers are not read
        self.delayed_messages_max: int = 100_000
        self.delayed_bytes_max: int = 67_108_864
        # Sparkplug
        self.bridge: bool = True
        self.own_topics: list[str] = []  # on which only the gateway itself publishes
        self.bridge_elide: bool = False
        self.bridge_death_time: bool = False
        self.command_expiry_ms: int = 30_000  # of NCMD and DCMD that wait for their node; 0 = none
        self.store_bytes_max: int = 1_073_741_824
        self.push_back_ms: int = 30_000
        self.error_hold_ms: int = 30_000
        self.commit_window_ms: int = 20  # how long an insert is held back for the acknowledgements; 0 = not at all
        self.hold_bytes_max: int = 8_388_608  # held back at most
        self.lazy_commit_ms: int = 1000  # what nobody waits for rides with a later commit, at most so late
        self.counter_commit_ms: int = 10_000
        self.sys_interval_ms: int = 10_000

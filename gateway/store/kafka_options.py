"""How Kafka is reached, and what is asked of its topics."""

import dataclasses
from collections.abc import Callable
from typing import Any, Final, final

from gateway.store.kafka_names import group_of, topic_of
from gateway.store.login import Login

_BATCH_BYTES: Final = 524_288
_ROOM_BYTES: Final = 65_536  # more than a record adds to a packet
_LEAST_BYTES: Final = 1_048_588  # of a record, what Kafka takes unless told otherwise


@final
@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class KafkaOptions:
    """``retention_ms`` and ``retention_bytes`` are of a topic, -1 = for ever; ``replication`` 0 = the cluster's own."""

    servers: list[str]
    prefix: str = ""
    pack: int = 200  # messages that may be read and not committed
    replication: int = 0
    retention_ms: int = -1
    retention_bytes: int = -1
    packet_bytes: int = 1_048_576  # the largest PUBLISH
    timeout_s: float = 5.0
    mechanism: str = "PLAIN"
    login: Callable[[], Login] = Login

    def topic(self, application: str) -> str:
        return topic_of(application, self.prefix)

    def group(self, application: str) -> str:
        return group_of(application, self.prefix)

    @property
    def record_bytes(self) -> int:
        return max(_LEAST_BYTES, self.packet_bytes + _ROOM_BYTES)

    def link(self) -> dict[str, Any]:
        """What all clients of aiokafka are told. Raises EngineRefused."""
        login = self.login()
        secure = login.tls is not None
        protocol = ("SASL_SSL" if secure else "SASL_PLAINTEXT") if login.user else ("SSL" if secure else "PLAINTEXT")
        out: dict[str, Any] = {
            "bootstrap_servers": list(self.servers),
            "client_id": "forebay",
            "request_timeout_ms": max(1000, int(1000 * self.timeout_s)),
            "security_protocol": protocol,
            "ssl_context": login.tls,
        }
        if login.user:
            out["sasl_mechanism"] = self.mechanism
            out["sasl_plain_username"] = login.user
            out["sasl_plain_password"] = login.password
        return out

    def writing(self) -> dict[str, Any]:
        """What a producer is told besides: one order for each topic, no record twice, kept by all replicas in sync."""
        return {
            "acks": "all",
            "enable_idempotence": True,
            "max_batch_size": _BATCH_BYTES,
            "max_request_size": max(4 * _BATCH_BYTES, self.record_bytes),
            "retry_backoff_ms": 100,
        }

    def reading(self, application: str) -> dict[str, Any]:
        """What a consumer is told besides."""
        return {
            "group_id": self.group(application),
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "max_partition_fetch_bytes": max(_LEAST_BYTES, self.record_bytes),
            "retry_backoff_ms": 100,
        }

    def topic_settings(self) -> dict[str, str]:
        """Of a topic that is made here; retention as in the settings of the application log."""
        return {
            "retention.ms": str(self.retention_ms),
            "retention.bytes": str(self.retention_bytes),
            "segment.bytes": "26214400",
            "max.message.bytes": str(self.record_bytes),
            "cleanup.policy": "delete",
        }

"""The settings of Kafka as the engine that keeps the log of the APPLICATIONs (docs/engines.md)."""

import dataclasses
import re

from gateway.settings.engine import EngineSettings, Servers
from gateway.settings.entry import setting
from gateway.settings.kinds import Boolean, Choice, Integer
from gateway.settings.uplink_kinds import Text


@dataclasses.dataclass(kw_only=True, slots=True)
class KafkaSettings(EngineSettings):
    """Part of ``Settings``."""

    application_log_kafka_servers: list[str] = setting(
        "application_log.kafka.servers",
        Servers("kafka-1:9092"),
        ["127.0.0.1:9092"],
        "Servers of the Kafka cluster to ask first, or of what speaks its protocol.",
        foreign_env="TB_KAFKA_SERVERS",
    )
    application_log_kafka_prefix: str = setting(
        "application_log.kafka.prefix",
        Text("at most 172 letters, digits, -, _ and .", re.compile(r"[A-Za-z0-9._-]{0,172}")),
        "",
        "What stands before the names of topics and groups; one gateway alone uses it.",
        foreign_env="TB_KAFKA_PREFIX",
    )
    application_log_kafka_pack: int = setting(
        "application_log.kafka.pack",
        Integer(1, 10_000),
        200,
        "Messages that an APPLICATION may have before its offset is committed: so many may come again after a crash.",
    )
    application_log_kafka_replication: int = setting(
        "application_log.kafka.replication",
        Integer(1, 32_767, {"cluster": 0}),
        "cluster",
        "Servers that keep each topic that is made; cluster = as many as the cluster's own default says.",
    )
    application_log_kafka_tls: bool = setting(
        "application_log.kafka.tls",
        Boolean(),
        False,
        "Whether the servers are reached by TLS.",
    )
    application_log_kafka_mechanism: str = setting(
        "application_log.kafka.mechanism",
        Choice("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
        "PLAIN",
        "How application_log.engine_user is proved (SASL); without a user there is no SASL.",
    )

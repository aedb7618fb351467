"""What the clients and topics of Kafka are told."""

import ssl

import pytest

from gateway.store.kafka_options import KafkaOptions
from gateway.store.login import Login


@pytest.mark.parametrize(
    ("user", "tls", "protocol"),
    [("", False, "PLAINTEXT"), ("", True, "SSL"), ("u", False, "SASL_PLAINTEXT"), ("u", True, "SASL_SSL")],
)
def test_how_the_servers_are_reached(user: str, tls: bool, protocol: str) -> None:
    context = ssl.create_default_context() if tls else None
    login = Login(user, "p", context)
    told = KafkaOptions(servers=["k:9092"], mechanism="SCRAM-SHA-512", login=lambda: login).link()
    assert told["security_protocol"] == protocol
    assert told["ssl_context"] is context
    assert told.get("sasl_plain_username", "") == user
    assert told.get("sasl_mechanism", "") == ("SCRAM-SHA-512" if user else "")


def test_a_record_is_kept_by_all_that_are_in_sync_in_one_order() -> None:
    told = KafkaOptions(servers=["k:9092"]).writing()
    assert told["acks"] == "all"
    assert told["enable_idempotence"] is True


def test_offsets_are_committed_by_us_alone_and_what_was_forgotten_comes_again() -> None:
    told = KafkaOptions(servers=["k:9092"], prefix="p.").reading("app")
    assert told["group_id"] == "p.application-persisted-msg-consumer-group-app"
    assert told["enable_auto_commit"] is False
    assert told["auto_offset_reset"] == "earliest"


@pytest.mark.parametrize("packet", [1, 1_048_576, 20_000_000])
def test_every_publish_fits_wherever_it_goes(packet: int) -> None:
    options = KafkaOptions(servers=["k:9092"], packet_bytes=packet)
    assert options.record_bytes >= max(packet + 65_536, 1_048_588)
    assert options.writing()["max_request_size"] >= options.record_bytes
    assert options.reading("a")["max_partition_fetch_bytes"] >= options.record_bytes
    assert options.topic_settings()["max.message.bytes"] == str(options.record_bytes)


def test_retention_is_that_of_the_application_log() -> None:
    told = KafkaOptions(servers=["k:9092"], retention_ms=604_800_000, retention_bytes=1_048_576_000).topic_settings()
    assert (told["retention.ms"], told["retention.bytes"]) == ("604800000", "1048576000")
    assert KafkaOptions(servers=["k:9092"]).topic_settings()["retention.ms"] == "-1"

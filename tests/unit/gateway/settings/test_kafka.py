"""The settings of Kafka, from a file and as TBMQ calls them in the environment."""

from pathlib import Path

import pytest

from gateway.settings.table import SettingsError, Sources, load


def test_what_a_file_says(tmp_path: Path) -> None:
    path = tmp_path / "forebay.toml"
    path.write_text(
        '[application_log]\nengine = "kafka"\n[application_log.kafka]\nservers = ["k1:9092", "[::1]:9093"]\n'
        'prefix = "plant1."\npack = 50\nreplication = 3\n'
    )
    settings = load(Sources(path), {})
    assert settings.application_log_engine == "kafka"
    assert settings.application_log_kafka_servers == ["k1:9092", "[::1]:9093"]
    assert settings.application_log_kafka_prefix == "plant1."
    assert (settings.application_log_kafka_pack, settings.application_log_kafka_replication) == (50, 3)


def test_by_default_the_pack_is_as_large_as_with_tbmq() -> None:
    settings = load(Sources(), {})
    assert settings.application_log_engine == "sqlite"
    assert (settings.application_log_kafka_pack, settings.application_log_kafka_replication) == (200, 0)


def test_variables_of_tbmq() -> None:
    settings = load(Sources(), {"TB_KAFKA_SERVERS": "k1:9092, k2:9092", "TB_KAFKA_PREFIX": "a_b-c."})
    assert settings.application_log_kafka_servers == ["k1:9092", "k2:9092"]
    assert settings.application_log_kafka_prefix == "a_b-c."


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("servers", "k"),
        ("servers", ""),
        ("servers", "k:0"),
        ("servers", "k:65536"),
        ("servers", "kafka://k:9092"),
        ("servers", "u:p@k:9092"),
        ("prefix", "a/b"),
        ("prefix", "ä"),
        ("prefix", "a" * 173),
        ("pack", "0"),
        ("replication", "0"),
        ("mechanism", "plain"),
    ],
)
def test_what_is_wrong_is_named(key: str, value: str) -> None:
    with pytest.raises(SettingsError, match=rf"application_log\.kafka\.{key}"):
        load(Sources(sets=(f"application_log.kafka.{key}={value}",)), {})

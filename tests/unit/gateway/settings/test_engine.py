"""The settings of an engine: what is taken, and the line that a wrong value gets."""

import pytest

from gateway.settings.table import Settings, SettingsError, Sources, load


def loaded(*sets: str) -> Settings:
    return load(Sources(sets=sets), {})


def test_by_default_the_log_is_the_one_here() -> None:
    settings = loaded()
    assert settings.application_log_engine == "sqlite"
    assert settings.application_log_capture == ["#"]


def test_lists_come_as_text_too() -> None:
    settings = loaded(
        "application_log.engine=nats", "application_log.capture=plant/#, +/alarm",
        "application_log.nats.servers=nats://10.0.0.1:4222,tls://n2.plant:4222",
        "application_log.nats.monitors=http://10.0.0.1:8222",
    )  # fmt: skip
    assert settings.application_log_capture == ["plant/#", "+/alarm"]
    assert settings.application_log_nats_servers == ["nats://10.0.0.1:4222", "tls://n2.plant:4222"]
    assert settings.application_log_nats_monitors == ["http://10.0.0.1:8222"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("application_log.engine=redis", 'expected one of "sqlite"'),
        ("application_log.capture=", "expected a list of topic filters"),
        ("application_log.capture=a/#/b", "expected a list of topic filters"),
        ("application_log.capture=$share/g/a", "expected a list of topic filters"),
        ("application_log.nats.servers=10.0.0.1:4222", "expected a list of addresses"),
        ("application_log.nats.servers=nats://user:secret@h:4222", "expected a list of addresses"),
        ("application_log.nats.servers=", "expected a list of addresses"),
        ("application_log.nats.servers=nats://h:70000", "expected a list of addresses"),
        ("application_log.nats.servers=nats://..:4222", "expected a list of addresses"),
        ("application_log.nats.stream=a.b", "expected letters, digits, - and _"),
        ("application_log.nats.replicas=6", "expected an integer from 1 to 5"),
        ("application_log.engine_user=a b", "expected a user name, or none"),
    ],
)
def test_a_wrong_value_is_named(given: str, expected: str) -> None:
    with pytest.raises(SettingsError) as e:
        loaded(given)
    assert given.split("=")[0] in str(e.value)
    assert expected in str(e.value)
    assert "secret" not in str(e.value)

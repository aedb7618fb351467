"""The settings of who comes in by which way."""

from pathlib import Path

import pytest

from gateway.core.acl import READ, Rule
from gateway.settings.table import SettingsError, Sources, as_toml, load
from tests.harness import REPO
from tests.security_table import markdown


def test_rules_come_from_file_environment_and_set(tmp_path: Path) -> None:
    path = tmp_path / "f.toml"
    path.write_text('[[acl]]\nallow = "read"\ntopic = "a/#"\n')
    assert load(Sources(path), {}).acl == [Rule(True, READ, "a/#")]
    assert load(Sources(path), {"FOREBAY_ACL": "allow read b"}).acl == [Rule(True, READ, "b")]
    settings = load(Sources(path, ("acl=deny read c;role=x",)), {})
    assert settings.acl == [Rule(False, READ, "c", role="x")]
    limits = settings.limits()
    assert limits.acl is not None
    assert limits.acl.closed
    assert load(Sources(), {}).limits().acl is None
    assert list(as_toml(settings, ["acl"])) == ['acl = [{ deny = "read", topic = "c", role = "x" }]']


def test_a_bad_rule_is_named(tmp_path: Path) -> None:
    path = tmp_path / "f.toml"
    path.write_text('[[acl]]\npermit = "read"\ntopic = "a/#"\n')
    with pytest.raises(SettingsError, match=r"f\.toml: acl = .*permit.*: expected tables with allow or deny"):
        load(Sources(path), {})


def test_tbmq_names_of_rate_limits() -> None:
    settings = load(
        Sources(),
        {"MQTT_INCOMING_RATE_LIMITS_ENABLED": "true", "MQTT_INCOMING_RATE_LIMITS_CLIENT_CONFIG": "7:1"},
    )
    limits = settings.limits()
    assert limits.client_rate_on
    assert limits.client_rate == [(7, 1)]
    assert not limits.total_rate_on
    limits = load(
        Sources(), {"MQTT_TOTAL_RATE_LIMITS_ENABLED": "true", "MQTT_TOTAL_RATE_LIMITS_CONFIG": "9:2,5:60"}
    ).limits()
    assert limits.total_rate_on
    assert limits.total_rate == [(9, 2), (5, 60)]


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (("listen=",), 'expected at least one "HOST:PORT" here or a listener of another kind'),
        (("listeners.wss=h:1",), 'tls.cert = "": expected a PEM file, since listeners.wss is set'),
        (("tls.crl=x.pem",), 'tls.crl = "x.pem": expected tls.client_ca as well'),
    ],
)
def test_what_cannot_go_together(sets: tuple[str, ...], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(Sources(sets=sets), {})
    assert message in str(caught.value)


def test_listeners_for_certificates_need_to_know_whose(tmp_path: Path) -> None:
    (tmp_path / "f.pem").touch()
    sets = ("listeners.mtls=h:1", f"tls.cert={tmp_path}/f.pem", f"tls.key={tmp_path}/f.pem")
    with pytest.raises(SettingsError, match=r'tls\.client_ca = "": expected a PEM file, since listeners\.mtls is set'):
        load(Sources(sets=sets), {})
    found = load(Sources(sets=(*sets, f"tls.client_ca={tmp_path}/none.pem")), {})
    assert [note for note in found.notes if note.startswith("tls.client_ca")]


@pytest.mark.parametrize("sets", [("listeners.ws=h:1",), ("listeners.unix=/tmp/m.sock",)])
def test_one_listener_of_any_kind_is_enough(sets: tuple[str, ...]) -> None:
    assert load(Sources(sets=("listen=", *sets)), {}).listen == []


def test_the_page_has_the_table_that_is_tried() -> None:
    assert markdown() in (REPO / "docs" / "security.md").read_text()

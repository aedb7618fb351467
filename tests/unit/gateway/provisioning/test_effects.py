import os
import stat
from pathlib import Path

import pytest

from gateway.access import Access
from gateway.auth import Passwords
from gateway.provisioning.card import Preset
from gateway.provisioning.effects import (
    Places,
    add_collector,
    add_uplink,
    add_user,
    apply_network,
    first_settings,
    give,
    hold_listeners,
    hostname,
    make_certificate,
    name_machine,
    set_key,
)
from gateway.provisioning.network import Network, Wifi
from gateway.settings.table import Settings, SettingsError, Sources, load

NOW_MS = 1_796_000_000_000
STAMP = "20261130-120000"


@pytest.fixture
def places(tmp_path: Path) -> Places:
    for name in ("fat", "own", "data"):
        (tmp_path / name).mkdir()
    (tmp_path / "own/machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    found = Places(tmp_path / "fat", tmp_path / "own", tmp_path / "etc/forebay.toml", tmp_path / "data")
    first_settings(found, STAMP)
    return found


def settings(places: Places) -> Settings:
    return load(Sources(places.settings), {})


def test_a_new_gateway_listens_to_its_network_for_those_with_a_password(places: Places) -> None:
    found = settings(places)
    assert found.listen == [("0.0.0.0", 1883)]
    assert found.data_dir == places.data
    assert found.allow_anonymous == "auto"


def test_systemd_holds_the_listeners_that_the_settings_name(places: Places, tmp_path: Path) -> None:
    make_certificate(places, NOW_MS, STAMP)
    part = tmp_path / "run/forebay.socket.d/listen.conf"
    hold_listeners(places, part)
    lines = ["[Socket]", "ListenStream=", "ListenStream=0.0.0.0:1883", "ListenStream=0.0.0.0:8883"]
    assert part.read_text().splitlines() == lines
    assert stat.S_IMODE(part.stat().st_mode) == 0o644
    places.settings.write_text("listen = 5\n")
    with pytest.raises(SettingsError):
        hold_listeners(places, part)
    assert part.read_text().splitlines() == lines


def test_the_first_settings_are_written_once(places: Places) -> None:
    set_key(places, "log.level", "debug", STAMP)
    first_settings(places, STAMP)
    assert settings(places).log_level == "debug"


def test_the_first_name_is_the_machines_own_and_stays(places: Places) -> None:
    name_machine(places)
    first = hostname(places)
    assert first.startswith("forebay-")
    assert len(first) == len("forebay-") + 6
    name_machine(places)
    assert hostname(places) == first
    name_machine(places, "line-4")
    name_machine(places)
    assert hostname(places) == "line-4"
    (places.own / "machine-id").write_text("another")
    (places.own / "hostname").unlink()
    name_machine(places)
    assert hostname(places) != first


def test_keys_of_its_own_and_tls_by_them(places: Places) -> None:
    name_machine(places, "line-4")
    make_certificate(places, NOW_MS, STAMP)
    found = settings(places)
    assert found.listeners_tls == [("0.0.0.0", 8883)]
    assert found.tls_cert is not None
    first = found.tls_cert.read_bytes()
    make_certificate(places, NOW_MS, STAMP)
    assert found.tls_cert.read_bytes() == first
    assert found.tls_key is not None
    assert stat.S_IMODE(found.tls_key.stat().st_mode) == 0o600


def test_network_files(places: Places) -> None:
    apply_network(places, Network("10.0.0.2/8"), Wifi("plant", "12345678"))
    assert "Address=10.0.0.2/8" in (places.own / "network/10-forebay.network").read_text()
    secret = places.own / "wifi/wpa_supplicant-wlan0.conf"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    apply_network(places, None, Wifi("plant", ""))  # as it stands on the card once the password is wiped
    assert "12345678" in secret.read_text()


def test_a_setting_that_is_none_leaves_the_file(places: Places) -> None:
    before = places.settings.read_text()
    for key, value in (("log.level", "loud"), ("log.levle", "debug"), ("log.level.x", 1)):
        with pytest.raises(SettingsError, match=r"log\."):
            set_key(places, key, value, STAMP)
    assert places.settings.read_text() == before


def test_an_uplink_takes_the_place_of_the_one_with_its_name(places: Places) -> None:
    row = {"name": "cloud", "addresses": ["mqtt://a:1883"], "rules": [{"direction": "out", "filter": "a/#"}]}
    add_uplink(places, row, STAMP)
    add_uplink(places, {**row, "addresses": ["mqtt://b:1883"]}, STAMP)
    assert len(settings(places).uplink) == 1
    with pytest.raises(SettingsError, match="adresses"):
        add_uplink(places, {"name": "x", "adresses": []}, STAMP)


def test_a_collector_may_read_its_topics_and_nothing_else(places: Places) -> None:
    preset = Preset("telegraf", "tele", "12345678", ("line/#",), "tele")
    for _ in range(2):
        add_collector(places, preset, STAMP)
    found = settings(places)
    assert [rule.name for rule in found.collector] == ["tele"]
    assert found.limits().max_inflight >= 1000
    assert Passwords(places.users).verify("tele", b"12345678")
    assert [(rule.username, rule.topic) for rule in Access(places.access).rules] == [("tele", "line/#")]


def test_a_user_operates(places: Places) -> None:
    add_user(places, "admin", "12345678", "operator")
    assert Passwords(places.users).verify("admin", b"12345678")
    assert Access(places.access).roles == {"admin": "operator"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_all_in_a_folder_is_given_to_the_gateway(places: Places) -> None:
    (places.data / "ca").mkdir()
    (places.data / "ca/key").touch()
    give(places.data, 5883, 5883)
    assert (places.data / "ca/key").stat().st_uid == 5883

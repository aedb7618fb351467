from typing import Any

import pytest

from gateway.provisioning.network import (
    CardError,
    Network,
    Wifi,
    is_host,
    network_file,
    parse_network,
    parse_wifi,
    wifi_file,
)


def test_a_fixed_address() -> None:
    table = {"address": "192.168.10.5/24", "gateway": "192.168.10.1", "dns": ["192.168.10.2"], "ntp": "clock.plant"}
    lines = network_file(parse_network(table)).splitlines()
    assert "Address=192.168.10.5/24" in lines
    assert "Gateway=192.168.10.1" in lines
    assert "DNS=192.168.10.2" in lines
    assert "NTP=clock.plant" in lines
    assert "DHCP=yes" not in lines


def test_dhcp_is_what_is_not_said_otherwise() -> None:
    assert parse_network({}) == Network()
    assert "DHCP=yes" in network_file(parse_network({"ntp": ["10.0.0.1"]})).splitlines()


def test_one_interface_alone() -> None:
    assert "Name=eth1" in network_file(parse_network({"interface": "eth1"})).splitlines()


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"address": "192.168.10.5"}, 'network.address = "192.168.10.5": expected "dhcp" or an address such as'),
        ({"address": "192.168.10.999/24"}, "network.address"),
        ({"address": 5}, "network.address = 5: expected a text in quotes"),
        ({"gateway": "192.168.10.1"}, "expected network.address as well"),
        ({"address": "10.0.0.2/8", "gateway": "router"}, 'network.gateway = "router"'),
        ({"dns": ["dns.plant"]}, 'network.dns = "dns.plant": expected addresses'),
        ({"dns": 8}, "network.dns = 8: expected a list"),
        ({"ntp": ["a b"]}, 'network.ntp = "a b"'),
        ({"ntp": ["x\nDHCP=yes"]}, "network.ntp"),
        ({"interface": "eth0\nDHCP=yes"}, "network.interface"),
        ({"adress": "dhcp"}, "network.adress: unknown key; expected address, interface"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_expected(table: dict[str, Any], said: str) -> None:
    with pytest.raises(CardError) as error:
        parse_network(table)
    assert said in str(error.value)


def test_wifi() -> None:
    text = wifi_file(parse_wifi({"ssid": 'Halle "4"', "password": 'quo"ted word', "country": "de"}))
    assert "country=DE" in text
    assert "ssid=" + b'Halle "4"'.hex() in text
    assert 'psk="quo"ted word"\n' in text


def test_an_open_network_has_no_key() -> None:
    assert "key_mgmt=NONE" in wifi_file(Wifi("plant", ""))


@pytest.mark.parametrize(
    "table", [{"ssid": ""}, {"ssid": "x" * 33}, {"ssid": "a", "password": "short"}, {"ssid": "a", "country": "DEU"}]
)
def test_wrong_wifi(table: dict[str, Any]) -> None:
    with pytest.raises(CardError) as error:
        parse_wifi(table)
    assert "short" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "good"), [("line-4", True), ("a.b", True), ("-a", False), ("a_b", False), ("", False), ("a" * 64, False)]
)
def test_names_of_machines(name: str, good: bool) -> None:
    assert is_host(name) is good

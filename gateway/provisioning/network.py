"""``[network]`` and ``[wifi]`` of the settings that a person writes on the card, as files of systemd-networkd."""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final

DHCP: Final = "dhcp"
_HOST: Final = re.compile(
    r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*"
)
_INTERFACE: Final = re.compile(r"[A-Za-z0-9_.-]{1,15}")


class CardError(ValueError):
    """One line: which key, which value, what is expected."""


@final
@dataclass(frozen=True, slots=True)
class Network:
    """``address`` is "dhcp" or an address with its prefix; ``interface`` is empty for all that have a cable."""

    address: str = DHCP
    interface: str = ""
    gateway: str = ""
    dns: tuple[str, ...] = ()
    ntp: tuple[str, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class Wifi:
    """``country``: two letters; without it a radio may use few channels."""

    ssid: str
    password: str
    country: str = ""


def is_host(name: str) -> bool:
    """Whether it can be the name of a machine."""
    return len(name) <= 253 and _HOST.fullmatch(name) is not None


def parse_network(table: Mapping[str, Any]) -> Network:
    """Raises CardError."""
    _known("network", table, ("address", "interface", "gateway", "dns", "ntp"))
    address = _text("network", table, "address", DHCP)
    if address != DHCP:
        try:
            ipaddress.ip_interface(address)
            good = "/" in address
        except ValueError:
            good = False
        if not good:
            raise CardError(f'network.address = "{address}": expected "dhcp" or an address such as "192.168.1.5/24"')
    interface = _text("network", table, "interface", "")
    if interface and not _INTERFACE.fullmatch(interface):
        raise CardError(f'network.interface = "{interface}": expected a name such as "eth0"')
    gateway = _text("network", table, "gateway", "")
    if gateway and not _is_address(gateway):
        raise CardError(f'network.gateway = "{gateway}": expected an address such as "192.168.1.1"')
    if gateway and address == DHCP:
        raise CardError(f'network.gateway = "{gateway}": expected network.address as well')
    dns, ntp = _texts(table, "dns"), _texts(table, "ntp")
    for name in dns:
        if not _is_address(name):
            raise CardError(f'network.dns = "{name}": expected addresses such as "192.168.1.1"')
    for name in ntp:
        if not (_is_address(name) or is_host(name)):
            raise CardError(f'network.ntp = "{name}": expected addresses or names of time servers')
    return Network(address, interface, gateway, dns, ntp)


def parse_wifi(table: Mapping[str, Any]) -> Wifi:
    """Raises CardError, which never shows the password."""
    _known("wifi", table, ("ssid", "password", "country"))
    ssid, password = _text("wifi", table, "ssid", ""), _text("wifi", table, "password", "")
    country = _text("wifi", table, "country", "").upper()
    if not 1 <= len(ssid.encode()) <= 32 or not ssid.isprintable():
        raise CardError(f'wifi.ssid = "{ssid}": expected the name of the network, 1 to 32 bytes')
    if password and not (8 <= len(password) <= 63 and password.isascii() and password.isprintable()):
        raise CardError("wifi.password: expected 8 to 63 plain characters")
    if country and not re.fullmatch("[A-Z]{2}", country):
        raise CardError(f'wifi.country = "{country}": expected two letters such as "DE"')
    return Wifi(ssid, password, country)


def network_file(network: Network) -> str:
    """A .network file of systemd-networkd."""
    match = f"Name={network.interface}" if network.interface else "Name=en* eth* end*"
    lines = ["[Match]", match, "", "[Network]"]
    if network.address == DHCP:
        lines.append("DHCP=yes")
    else:
        lines.append(f"Address={network.address}")
    if network.gateway:
        lines.append(f"Gateway={network.gateway}")
    lines += [f"DNS={name}" for name in network.dns]
    lines += [f"NTP={name}" for name in network.ntp]
    lines += ["MulticastDNS=yes", "", "[Link]", "RequiredForOnline=no"]
    return "".join(line + "\n" for line in lines)


def wifi_file(wifi: Wifi) -> str:
    """The settings of wpa_supplicant; the name as hexadecimal digits, so that no character means anything else."""
    lines = ["ctrl_interface=/run/wpa_supplicant"]
    if wifi.country:
        lines.append(f"country={wifi.country}")
    lines += ["network={", f"    ssid={wifi.ssid.encode().hex()}"]
    if wifi.password:
        # quotes inside need no escape there: the last one on the line ends the text
        lines += [f'    psk="{wifi.password}"', "    key_mgmt=WPA-PSK WPA-PSK-SHA256 SAE", "    ieee80211w=1"]
    else:
        lines.append("    key_mgmt=NONE")
    return "".join(line + "\n" for line in [*lines, "}"])


def _known(where: str, table: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    for key in table:
        if key not in keys:
            raise CardError(f"{where}.{key}: unknown key; expected {', '.join(keys)}")


def _text(where: str, table: Mapping[str, Any], key: str, default: str) -> str:
    value = table.get(key, default)
    if not isinstance(value, str):
        shown = "" if key == "password" else f" = {value}"
        raise CardError(f"{where}.{key}{shown}: expected a text in quotes")
    return value


def _texts(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise CardError(f"network.{key} = {value}: expected a list of texts in quotes")
    return tuple(value)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True

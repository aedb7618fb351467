"""``forebay.toml`` on the FAT partition: what a person wants of the gateway, written after flashing.

What is wrong costs only its own part: each part that cannot be used is one error, and the others count.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard, TypeVar, final

import tomlkit
import tomlkit.exceptions

from gateway.provisioning import setup_code
from gateway.provisioning.network import CardError, Network, Wifi, is_host, parse_network, parse_wifi
from gateway.settings import sources
from gateway.settings.collector import PRODUCTS

FILE: Final = "forebay.toml"
SECRET: Final = "password"
PASSWORD_CHARS_MIN: Final = 8
LISTS: Final = ("uplink", "collector")  # [[tables]], told apart by name
_PARTS: Final = ("hostname", "network", "wifi", "user", "uplink", "collector", "settings")
T = TypeVar("T")


@final
@dataclass(frozen=True, slots=True)
class User:
    """Who operates the gateway; without a password the user stays as it is."""

    name: str
    password: str = field(repr=False)


@final
@dataclass(frozen=True, slots=True)
class Preset:
    """A collector: its user with a password, and the rows that its kind of program needs."""

    product: str
    name: str
    password: str = field(repr=False)
    topics: tuple[str, ...]
    client_id: str


@final
@dataclass(slots=True)
class Card:
    """What of the file can be used; ``errors``: a line for each part that cannot."""

    hostname: str = ""
    network: Network | None = None
    wifi: Wifi | None = None
    user: User | None = None
    uplinks: list[dict[str, Any]] = field(default_factory=list)
    collectors: list[Preset] = field(default_factory=list)
    settings: dict[str, object] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    failed: set[tuple[str, str]] = field(default_factory=set)  # (table, name of its row) of what is wrong
    is_toml: bool = True


def parse(data: bytes) -> Card:
    """The content of the file, however it was written."""
    card = Card()
    try:
        table = sources.parse(data, FILE)
    except sources.SettingsError as error:
        card.errors.append(f"nothing of it was applied: {error}")
        card.is_toml = False
        return card
    for key in table:
        if key not in _PARTS:
            card.errors.append(f"{key}: unknown key; expected {', '.join(_PARTS)}")
    card.hostname = _part(card, table, "hostname", _hostname) or ""
    card.network = _part(card, table, "network", lambda value: parse_network(_table("network", value)))
    card.wifi = _part(card, table, "wifi", lambda value: parse_wifi(_table("wifi", value)))
    card.user = _part(card, table, "user", _user)
    card.settings = _part(card, table, "settings", lambda value: flat(_table("settings", value))) or {}
    for key, read in (("uplink", _uplink), ("collector", _collector)):
        rows = table.get(key, [])
        if not isinstance(rows, list):
            card.errors.append(f"{key}: expected [[{key}]], in double brackets")
            continue
        for number, row in enumerate(rows, 1):
            try:
                found = read(f"{key} {number}", row)
            except CardError as error:
                card.errors.append(str(error))
                card.failed.add((key, str(row.get("name", "")) if isinstance(row, dict) else ""))
                continue
            if isinstance(found, Preset):
                card.collectors.append(found)
            else:
                card.uplinks.append(found)
    return card


def _part(card: Card, table: Mapping[str, Any], key: str, read: Callable[[object], T]) -> T | None:
    if key not in table:
        return None
    try:
        return read(table[key])
    except (CardError, RecursionError) as error:
        card.errors.append(f"{error}" if isinstance(error, CardError) else f"{key}: nested too deeply")
        card.failed.add((key, ""))
        return None


def _table(name: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise CardError(f"{name}: expected a table, [{name}]")
    return value


def _hostname(value: object) -> str:
    if not isinstance(value, str) or not is_host(value) or len(value) > 63:
        raise CardError(f"hostname = {value!r}: expected letters, digits and hyphens, 63 at most")
    return value


def _user(value: object) -> User:
    table = _table("user", value)
    _known("user", table, ("name", SECRET))
    name, password = table.get("name", ""), table.get(SECRET, "")
    if not _is_user(name):
        raise CardError(f"user.name = {name!r}: expected printable characters without a colon, not {setup_code.USER}")
    if not isinstance(password, str) or 0 < len(password) < PASSWORD_CHARS_MIN:
        raise CardError(f"user.password: expected at least {PASSWORD_CHARS_MIN} characters in quotes")
    return User(name, password)


def _is_user(name: object) -> TypeGuard[str]:
    """Whether somebody can be called so; the one of the setup code comes and goes with that."""
    if not isinstance(name, str) or not name or not name.isprintable():
        return False
    return ":" not in name and name[0] != "#" and name != setup_code.USER


def _uplink(where: str, row: object) -> dict[str, Any]:
    table = _table(where, row)
    if not isinstance(table.get("name"), str) or not table["name"]:
        raise CardError(f"{where}.name: expected a name in quotes")
    return dict(table)


def _collector(where: str, row: object) -> Preset:
    table = _table(where, row)
    _known(where, table, ("product", "name", SECRET, "topics", "client_id"))
    product, name = table.get("product", "other"), table.get("name", "")
    if product not in PRODUCTS:
        raise CardError(f"{where}.product = {product!r}: expected one of {', '.join(PRODUCTS)}")
    if not _is_user(name):
        raise CardError(f"{where}.name = {name!r}: expected a name in quotes, not {setup_code.USER}")
    password, topics = table.get(SECRET, ""), table.get("topics", [])
    if not isinstance(password, str) or 0 < len(password) < PASSWORD_CHARS_MIN:
        raise CardError(f"{where}.password: expected at least {PASSWORD_CHARS_MIN} characters in quotes")
    if not isinstance(topics, list) or not topics or not all(isinstance(topic, str) and topic for topic in topics):
        raise CardError(f'{where}.topics = {topics!r}: expected topic filters such as ["line/#"]')
    client_id = table.get("client_id", name)
    if not isinstance(client_id, str) or not client_id:
        raise CardError(f"{where}.client_id = {client_id!r}: expected a client id in quotes")
    if product == "factry" and "client_id" not in table:
        raise CardError(f'{where}.client_id: a Factry collector derives it from its UUID: expected "*UUID*"')
    return Preset(product, name, password, tuple(topics), client_id)


def _known(where: str, table: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    for key in table:
        if key not in keys:
            raise CardError(f"{where}.{key}: unknown key; expected {', '.join(keys)}")


def flat(table: Mapping[str, Any], above: str = "") -> dict[str, object]:
    """Dotted names of nested tables."""
    found: dict[str, object] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            found |= flat(value, f"{above}{key}.")
        else:
            found[above + key] = value
    return found


def wiped(data: bytes, keep: Callable[[str, Mapping[str, Any]], bool]) -> bytes:
    """The file without its passwords; the rest, with comments, stays. ``keep`` picks tables whose password stays.

    Raises ValueError for what is no TOML.
    """
    text = data.decode("utf-8-sig")
    try:
        document = tomlkit.parse(text)
    except (tomlkit.exceptions.TOMLKitError, RecursionError) as error:
        raise ValueError(str(error)) from None
    for key, value in document.items():
        for table in value if isinstance(value, list) else [value]:
            if isinstance(table, dict) and not keep(key, table):
                _wipe(table)
    return document.as_string().encode()


def _wipe(table: Any) -> None:
    for key, value in list(table.items()):
        if isinstance(value, dict):
            _wipe(value)
        elif isinstance(value, str) and value and re.search(SECRET, key, re.IGNORECASE) and not key.endswith("_file"):
            table[key] = ""

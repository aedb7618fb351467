"""What the operator says of single users and clients: roles, rules of their own, and who is banned.

One TOML file beside the password file, changed by ``forebay user`` and ``forebay acl`` while the broker runs.
"""

import ipaddress
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, final

from gateway.core.acl import READ, WRITE, Acl, Rule
from gateway.core.patterns import matches
from gateway.replacing import locked, replace
from gateway.settings.kinds import quoted
from gateway.settings.rule_kinds import AclRules

HEALTH_ID: Final = "forebay-health"  # how the client ids begin with which an update is judged
HEALTH_TOPIC: Final = "$forebay/health"
ADDRESS: Final = "address"
CLIENT_ID: Final = "client_id"
USERNAME: Final = "username"
_KINDS: Final = (ADDRESS, CLIENT_ID, USERNAME)
_RULES: Final = AclRules()
_HEAD: Final = "# Written by forebay user and forebay acl; a running broker reads changes made by hand at SIGHUP.\n"


class AccessError(Exception):
    """One line: what about the file, a role, a rule or a ban cannot be done."""


class Ban(NamedTuple):
    """An address or network, or a pattern with * and ? for client ids or user names."""

    kind: str
    value: str


@final
class Access:
    """The content of the file. ``damage`` has a line for each row that says nothing; the others hold."""

    def __init__(self, path: Path) -> None:
        """Raises AccessError when the file is there but cannot be read; no file = nothing."""
        self.path = path
        self.damage: list[str] = []
        self.roles: dict[str, str] = {}
        self.rules: list[Rule] = []
        self.bans: list[Ban] = []
        self.reload()

    def reload(self) -> None:
        """Read the file again. Raises AccessError and keeps everything as it was."""
        table, damage = self._read(), []
        rows: dict[str, list[Any]] = {}
        for name in ("rules", "bans"):
            given = table.get(name, [])
            rows[name] = given if isinstance(given, list) else []
            if not isinstance(given, list):
                damage.append(f"{self.path}: {name}: expected a list of tables; none of it holds")
        given_roles = table.get("roles", {})
        if not isinstance(given_roles, dict):
            damage.append(f"{self.path}: roles: expected a table of users and their roles; none of it holds")
            given_roles = {}
        damage += [f"{self.path}: {name}: unknown key" for name in table.keys() - {"roles", "rules", "bans"}]
        self.roles = {user: role if isinstance(role, str) else "" for user, role in given_roles.items()}
        self.rules = list(self._good("rules", rows["rules"], _RULES.one, _RULES.allowed, damage))
        self.bans = list(self._good("bans", rows["bans"], read_ban, f"a table with one of {', '.join(_KINDS)}", damage))
        self.damage = damage

    def acl(self, general: Sequence[Rule]) -> Acl | None:
        """All rules with those of the settings; None when there is none at all."""
        if not general and not self.rules and not self.roles:
            return None
        health = Rule(True, READ | WRITE, HEALTH_TOPIC, client_id=f"{HEALTH_ID}*")
        return Acl(list(general), [*self.rules, health], dict(self.roles))

    def banned(self, host: str, client_id: str, username: str) -> Ban | None:
        """The ban that holds for a client; "" = not known yet, or none."""
        for ban in self.bans:
            if ban.kind == ADDRESS:
                if host and _within(host, ban.value):
                    return ban
            elif ban.kind == CLIENT_ID:
                if client_id and matches(client_id, ban.value):
                    return ban
            elif username and matches(username, ban.value):
                return ban
        return None

    @contextmanager
    def change(self) -> Iterator[None]:
        """What is done to ``roles``, ``rules`` and ``bans`` meanwhile is written. Raises AccessError."""
        try:
            with locked(self.path):
                self.reload()
                if self.damage:
                    raise AccessError(f"{self.damage[0]}: first put that right, since the file is written anew")
                yield
                replace(self.path, self._text().encode())
        except OSError as error:
            raise AccessError(f"{self.path}: cannot be written: {error.strerror}") from None

    def _read(self) -> dict[str, Any]:
        try:
            return tomllib.loads(self.path.read_bytes().decode("utf-8-sig"))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise AccessError(f"{self.path}: cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError) as error:  # not UTF-8, not TOML
            raise AccessError(f"{self.path}: not valid TOML: {error}") from None

    def _good(
        self, name: str, rows: list[Any], read: Callable[[object], Any], allowed: str, damage: list[str]
    ) -> Iterator[Any]:
        for number, row in enumerate(rows, 1):
            try:
                yield read(row)
            except ValueError:
                damage.append(f"{self.path}: {name}: row {number}: expected {allowed}; it does not hold")

    def _text(self) -> str:
        lines = [_HEAD]
        lines += ["rules = [", *(f"  {_RULES.show_one(rule)}," for rule in self.rules), "]"]
        lines += ["bans = [", *(f"  {{ {ban.kind} = {quoted(ban.value)} }}," for ban in self.bans), "]"]
        lines += ["", "[roles]", *(f"{quoted(user)} = {quoted(role)}" for user, role in sorted(self.roles.items()))]
        return "\n".join(lines) + "\n"


def read_ban(row: object) -> Ban:
    """Raises ValueError."""
    if not isinstance(row, dict) or len(row) != 1:
        raise ValueError
    kind, value = next(iter(row.items()))
    if kind not in _KINDS or not isinstance(value, str) or not value:
        raise ValueError
    if kind == ADDRESS:
        return Ban(kind, str(ipaddress.ip_network(value, strict=False)).removesuffix("/32").removesuffix("/128"))
    return Ban(kind, value)


def _within(host: str, network: str) -> bool:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:  # of a Unix socket
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address in ipaddress.ip_network(network)

"""The rows of ``client_type``: clients by name, their type, and how the log of an APPLICATION is read."""

from typing import Final, final

from gateway.core.limits import UNSET, ClientRule
from gateway.settings.entry import RowError
from gateway.settings.kinds import Duration, Integer, Size, one_of, quoted


@final
class ClientTypes:
    """A list of tables {client_id = pattern, username = pattern, type = "application" or "device"}.

    One of the two patterns may be left out. An application may have start, max_bytes, max_age and drain_rate of its
    own. As text: PATTERN=application;drain_rate=500,username:PATTERN=device.
    """

    allowed = (
        'tables with client_id and/or username (patterns with * and ?) and type ("application" or "device"), an '
        'application also with start ("end" or "earliest"), max_bytes, max_age and drain_rate; '
        "as text PATTERN=TYPE or username:PATTERN=TYPE, each with ;KEY=VALUE for the others, separated by commas"
    )
    _TYPES: Final = {"application": True, "device": False}
    _STARTS: Final = {"earliest": 1, "end": 0}
    _USER: Final = "username:"

    def __init__(self) -> None:
        self._of_application: dict[str, Integer | Size | Duration] = {
            "max_bytes": Size(words={"unlimited": 0}),
            "max_age": Duration(words={"never": 0}),
            "drain_rate": Integer(0, 1_000_000, {"unlimited": 0}),
        }

    def parse(self, value: object) -> list[ClientRule]:
        if not isinstance(value, list):
            raise ValueError
        return [self._one(number, row) for number, row in enumerate(value, 1)]

    def _one(self, number: int, row: object) -> ClientRule:
        if not isinstance(row, dict):
            raise ValueError
        client_id, username, kind = row.get("client_id", ""), row.get("username", ""), row.get("type")
        for key, pattern in (("client_id", client_id), ("username", username)):
            if not isinstance(pattern, str):
                raise RowError(f"[{number}].{key}", pattern, "a pattern with * and ?")
        if not (client_id or username):
            raise RowError(f"[{number}].client_id", client_id, "a pattern with * and ?, here or as username")
        if not isinstance(kind, str) or kind.lower() not in self._TYPES:
            raise RowError(f"[{number}].type", kind, one_of(self._TYPES))
        application = self._TYPES[kind.lower()]
        known = ["client_id", "username", "type", *(("start", *self._of_application) if application else ())]
        for key, given in row.items():
            if key not in known:
                what = "an application" if application else "a device"
                raise RowError(f"[{number}].{key}", given, f"{what} to have only {', '.join(known)}")
        found = {name: self._number(number, name, row[name]) for name in self._of_application if name in row}
        earliest = UNSET
        if "start" in row:
            if row["start"] not in ("end", "earliest"):
                raise RowError(f"[{number}].start", row["start"], one_of(self._STARTS))
            earliest = self._STARTS[row["start"]]
        return ClientRule(
            client_id,
            username,
            application,
            earliest,
            found.get("max_bytes", UNSET),
            found.get("max_age", UNSET),
            found.get("drain_rate", UNSET),
        )

    def _number(self, row: int, name: str, value: object) -> int:
        reading = self._of_application[name]
        try:
            return reading.parse(value)
        except ValueError:
            raise RowError(f"[{row}].{name}", value, reading.allowed) from None

    def from_text(self, text: str) -> object:
        rows: list[dict[str, object]] = []
        for part in text.split(",") if text else ():
            first, *others = part.strip().split(";")
            pattern, _, kind = first.rpartition("=")
            name = "username" if pattern.startswith(self._USER) else "client_id"
            row: dict[str, object] = {name: pattern.removeprefix(self._USER).strip(), "type": kind.strip()}
            for other in others:
                key, _, said = other.partition("=")
                reading = self._of_application.get(key.strip())
                row[key.strip()] = said.strip() if reading is None else reading.from_text(said.strip())
            rows.append(row)
        return rows

    def show(self, value: object) -> str:
        assert isinstance(value, list)
        rows: list[str] = []
        for rule in value:
            assert isinstance(rule, ClientRule)
            given = {"client_id": rule.client_id, "username": rule.username}
            pairs = [f"{name} = {quoted(pattern)}" for name, pattern in given.items() if pattern]
            pairs.append(f'type = "{"application" if rule.application else "device"}"')
            if rule.earliest != UNSET:
                pairs.append(f'start = "{"earliest" if rule.earliest else "end"}"')
            numbers = {"max_bytes": rule.max_bytes, "max_age": rule.max_age_s, "drain_rate": rule.drain_rate}
            pairs += [f"{name} = {self._of_application[name].show(n)}" for name, n in numbers.items() if n != UNSET]
            rows.append("{ " + ", ".join(pairs) + " }")
        return "[" + ", ".join(rows) + "]"

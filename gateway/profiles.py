"""Device profiles: what is known of how a family of Sparkplug devices publishes.

Ours come with the package, an operator's own lie in ``profiles`` of the data folder and take the place of ours of
the same name. A file is checked against ``firmware_profiles/devices/schema.json``; one with a fault is set aside.
"""

import dataclasses
import datetime
import functools
import json
import re
import tomllib
from collections.abc import Iterable
from fnmatch import translate
from pathlib import Path
from typing import Any, Final, final

from gateway.schema import check, understood
from gateway.settings.kinds import quoted

DEVICES: Final = Path(__file__).resolve().parents[1] / "firmware_profiles" / "devices"
FILE_BYTES_MAX: Final = 1 << 20
WEIGHTS: Final = {"topic": 8, "model": 4, "make": 2, "client_id": 1}  # how much a rule that fits says
DECISIVE: Final = ("model", "make")  # a device that says another one of these is another device


class ProfileError(Exception):
    """One line for each fault: file, key, what is expected."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


@final
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    vendor: str
    model: str
    firmware: str
    sparkplug: tuple[str, ...] = ()
    mqtt: tuple[str, ...] = ()
    state: str | None = None


@final
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Patterns with * and ?, without regard to case."""

    client_id: tuple[str, ...] = ()
    make: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    topic: tuple[str, ...] = ()  # group/edge node


@final
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Transport:
    qos: dict[str, int] = dataclasses.field(default_factory=dict)  # by message type
    qos_set_by: str | None = None
    keep_alive_s: int | None = None
    keep_alive_min_s: int | None = None
    clean: bool | None = None
    client_id_stable: bool | None = None
    will_qos: int | None = None


@final
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    resends: bool | None = None
    sets_dup: bool | None = None
    replay_order: str | None = None
    queue: str | None = None
    queue_limit: str | None = None
    drop_policy: str | None = None
    survives_reboot: bool | None = None


@final
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Native:
    """Store-and-forward of the device itself."""

    available: bool = False
    default_on: bool | None = None
    trigger: tuple[str, ...] = ()
    store: str | None = None
    limit: str | None = None
    drop_policy: str | None = None
    is_historical: bool | None = None
    original_timestamps: bool | None = None
    order: str | None = None
    flush: str | None = None
    covers_keep_alive: bool | None = None
    how: str | None = None


@final
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    bdseq_persisted: bool | None = None
    bdseq_type: str | None = None
    bdseq_matches: bool | None = None
    seq_given: str | None = None
    seq_gaps_after_outage: bool | None = None
    rebirth: bool | None = None
    ndeath_on_rebirth: bool | None = None


@final
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Codec:
    aliases: bool | None = None
    int8_16: str | None = None
    uint32: str | None = None


@final
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    date: str
    method: str
    verdict: str
    confidence: str
    source: tuple[str, ...]
    expires_on_firmware_change: bool
    fallback: str
    firmware_seen: str | None = None
    notes: str | None = None


@final
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ncmd:
    """A node command that sets the QoS."""

    metric: str
    datatype: str
    value: int | bool | str


@final
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    possible: bool
    text: str
    verdict: str | None = None  # expected once it is set
    ncmd: Ncmd | None = None


@final
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    name: str
    title: str
    identity: Identity
    match: Rules
    evidence: Evidence
    upgrade: Upgrade
    transport: Transport = Transport()
    retry: Retry = Retry()
    native: Native = Native()
    session: Session = Session()
    codec: Codec = Codec()
    path: Path | None = None  # where it was read

    @property
    def own(self) -> bool:
        """Whether it is the operator's."""
        return self.path is not None and self.path.parent != DEVICES

    def expired(self, firmware: str) -> bool:
        """Whether its evidence was found with another firmware than the device has now; what is not known has not."""
        evidence = self.evidence
        return bool(
            evidence.expires_on_firmware_change
            and firmware
            and evidence.firmware_seen
            and evidence.firmware_seen != firmware
        )


_SECTIONS: Final[dict[str, Any]] = {
    "identity": Identity, "match": Rules, "transport": Transport, "retry": Retry, "native": Native,
    "session": Session, "codec": Codec, "evidence": Evidence, "upgrade": Upgrade,
}  # fmt: skip


@functools.cache
def schema() -> dict[str, Any]:
    """The schema that came with the package."""
    loaded: dict[str, Any] = json.loads((DEVICES / "schema.json").read_text(encoding="utf-8"))
    understood(loaded)
    return loaded


def read(path: Path) -> Profile:
    """The profile of a file, whose name is the profile's. Raises ProfileError."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise ProfileError([f"{path}: larger than expected of a profile ({FILE_BYTES_MAX} bytes at most)"])
        values = tomllib.loads(data.decode("utf-8-sig"))
    except OSError as e:
        raise ProfileError([f"{path}: cannot be read: {e.strerror or e}"]) from None
    except UnicodeDecodeError as e:
        raise ProfileError([f"{path}: not UTF-8 at byte {e.start}: expected a TOML file"]) from None
    except (ValueError, RecursionError) as e:  # ValueError: not TOML, or a number with thousands of digits
        raise ProfileError([f"{path}: {' '.join(str(e).split())}: expected a TOML file"]) from None
    evidence = values.get("evidence")
    if isinstance(evidence, dict) and type(evidence.get("date")) is datetime.date:
        evidence["date"] = evidence["date"].isoformat()
    faults = [f"{path}: {fault}" for fault in check(values, schema())]
    if not faults and values["name"] != path.stem:
        faults = [f"{path}: name: {quoted(values['name'])}: expected {quoted(path.stem)}, as the file is called"]
    if faults:
        raise ProfileError(faults)
    return parse(values, path)


def parse(values: dict[str, Any], path: Path | None = None) -> Profile:
    """The profile of values that the schema allows."""
    sections: dict[str, Any] = {
        name: _section(kind, values[name]) if name != "upgrade" else _upgrade(values[name])
        for name, kind in _SECTIONS.items()
        if name in values
    }
    return Profile(name=values["name"], title=values["title"], path=path, **sections)


def _section(kind: Any, values: dict[str, Any]) -> Any:
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})


def _upgrade(values: dict[str, Any]) -> Upgrade:
    ncmd = values.get("ncmd")
    return Upgrade(**{**values, "ncmd": Ncmd(**ncmd) if ncmd is not None else None})


def load(own: Path | None = None) -> tuple[dict[str, Profile], list[str]]:
    """Every profile by name, and a line for each fault of the files that were set aside."""
    found: dict[str, Profile] = {}
    faults: list[str] = []
    for folder in (DEVICES, own):
        if folder is None or not folder.is_dir():
            continue
        for path in sorted(folder.glob("*.toml")):
            try:
                profile = read(path)
            except ProfileError as e:
                faults += e.faults
            else:
                found[profile.name] = profile
    return dict(sorted(found.items())), faults


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Match:
    """A profile that fits, and by which rules."""

    profile: Profile
    by: tuple[str, ...]

    @property
    def score(self) -> int:
        return sum(WEIGHTS[kind] for kind in self.by)


def match(
    profiles: Iterable[Profile], *, client_id: str = "", make: str = "", model: str = "", topic: str = ""
) -> list[Match]:
    """The profiles that fit what is known of a device (``topic`` is "group/edge node"), the best first.

    One rule that fits is enough, but a device whose make or model is told and fits none of a profile's patterns is
    another. Among equals the operator's own goes first.
    """
    facts = {"topic": topic, "model": model, "make": make, "client_id": client_id}
    found: list[Match] = []
    for profile in profiles:
        by = []
        for kind, fact in facts.items():
            patterns: tuple[str, ...] = getattr(profile.match, kind)
            if not fact or not patterns:
                continue
            if any(_pattern(pattern).match(fact) for pattern in patterns):
                by.append(kind)
            elif kind in DECISIVE:
                break
        else:
            if by:
                found.append(Match(profile, tuple(by)))
    return sorted(found, key=lambda one: (-one.score, not one.profile.own, one.profile.name))


@functools.lru_cache(1024)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(translate(text.replace("[", "[[]")), re.IGNORECASE)


def as_toml(values: dict[str, Any]) -> str:
    """A profile's values as the text of its file; tables inside a section stand on one line."""
    lines = [f"{name} = {_value(value)}" for name, value in values.items() if not isinstance(value, dict)]
    for name, section in values.items():
        if isinstance(section, dict):
            lines += ["", f"[{name}]"]
            lines += [f"{key} = {_value(value)}" for key, value in section.items()]
    return "".join(line + "\n" for line in lines)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, dict):
        inner = ", ".join(f"{key} = {_value(one)}" for key, one in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(one) for one in value)}]"
    return str(value)

"""The first start, and each one after somebody has changed ``forebay.toml`` on the card: what it wants is put in force.

Nothing here stops the gateway: what cannot be done is a line of ``forebay-errors.txt`` beside the file.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, final

from gateway.access import Access
from gateway.auth import Passwords
from gateway.provisioning import card as cards
from gateway.provisioning import setup_code
from gateway.provisioning.card import Card
from gateway.provisioning.effects import (
    SHARED,
    Places,
    add_collector,
    add_uplink,
    add_user,
    apply_network,
    first_settings,
    make_certificate,
    name_machine,
    set_key,
)
from gateway.replacing import replace

ERRORS: Final = "forebay-errors.txt"
ODD: Final = ("forebay.toml.txt", "forebay.txt")  # how the file is called where Windows hides endings
BYTES_MAX: Final = 262_144  # a Raspberry Pi reads for minutes what is far longer


@final
@dataclass(frozen=True, slots=True)
class Outcome:
    """``errors``: lines for the person; ``applied``: whether the card had something new; ``code``: to set up with."""

    errors: list[str]
    applied: bool
    code: str


def apply(
    places: Places,
    writable_fat: Callable[[], AbstractContextManager[None]],
    now_ms: int,
    stamp: str,
    lasts: bool = True,
) -> Outcome:
    """Put in force what the card says, once for each version of its file. ``now_ms``: UTC; ``stamp`` names the time.

    Unless what is written ``lasts``, passwords stay on the card: the next start needs them again.
    """
    errors: list[str] = []
    _step(errors, "hostname", lambda: name_machine(places))
    _step(errors, "settings", lambda: first_settings(places, stamp))
    unread: list[str] = []
    data = _read_card(places.fat, unread)
    errors += unread
    is_new = data is not None and _digest(data) != _noted(places)
    if data is not None and is_new:
        _apply_card(places, data, writable_fat, stamp, errors, lasts)
    elif unread:
        _step(errors, "the card", lambda: _tell_in(places.fat, writable_fat, unread))
    _step(errors, "certificate", lambda: make_certificate(places, now_ms, stamp))
    code: list[str] = []
    offer = partial(setup_code.offer, places.code)
    _step(errors, "setup code", lambda: code.append(offer(Passwords(places.users), Access(places.access))))
    return Outcome([_line(error) for error in errors], is_new, "".join(code))


def _step(errors: list[str], what: str, do: Callable[[], None]) -> bool:
    """Whether it was done. Nothing that goes wrong in one may cost another, or the start."""
    try:
        do()
    except Exception as error:
        errors.append(f"{what}: {error}")
        return False
    return True


def _line(text: str) -> str:
    """One line, whatever was quoted from the card."""
    return "".join(char if char.isprintable() else " " for char in text)[:1000]


def _read_card(fat: Path, errors: list[str]) -> bytes | None:
    errors += [f"{name}: expected the name {cards.FILE}" for name in ODD if (fat / name).exists()]
    try:
        with (fat / cards.FILE).open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        errors.append(f"{cards.FILE}: cannot be read: {error.strerror}")
        return None
    if len(data) > BYTES_MAX:
        errors.append(f"{cards.FILE}: nothing of it was applied: expected {BYTES_MAX} bytes at most")
        return None
    return data


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _noted(places: Places) -> str:
    with contextlib.suppress(OSError):
        return places.applied.read_text().strip()
    return ""


def _apply_card(
    places: Places,
    data: bytes,
    writable_fat: Callable[[], AbstractContextManager[None]],
    stamp: str,
    errors: list[str],
    lasts: bool,
) -> None:
    card = cards.parse(data)
    errors += card.errors
    failed = set(card.failed)  # tables whose password is still wanted
    for table, name, do in _steps(places, card, stamp):
        if not _step(errors, f"{table}{f' {name}' if name else ''}", do):
            failed.add((table, name))

    def keep(key: str, table: Mapping[str, Any]) -> bool:
        return (key, str(table.get("name", "")) if key in cards.LISTS else "") in failed

    left = data
    if card.is_toml and lasts:
        with contextlib.suppress(ValueError):
            left = cards.wiped(data, keep)
    try:
        with writable_fat():
            _tell(places.fat, errors)
            if left != data:
                replace(places.fat / cards.FILE, left, SHARED)
    except OSError as error:
        errors.append(f"the card cannot be written ({error.strerror}): passwords stay on it")
        left = data
    _step(errors, str(places.applied), lambda: replace(places.applied, _digest(left).encode()))


def _steps(places: Places, card: Card, stamp: str) -> Iterator[tuple[str, str, Callable[[], None]]]:
    """(table, name, what is done for it), in an order in which the later ones may need the earlier."""
    if card.hostname:
        yield "hostname", "", partial(name_machine, places, card.hostname)
    yield "network", "", partial(apply_network, places, card.network, card.wifi)
    for key, value in card.settings.items():
        yield "settings", key, partial(set_key, places, key, value, stamp)
    for row in card.uplinks:
        yield "uplink", row["name"], partial(add_uplink, places, row, stamp)
    for preset in card.collectors:
        yield "collector", preset.name, partial(add_collector, places, preset, stamp)
    if card.user is not None and card.user.password:
        yield "user", "", partial(add_user, places, card.user.name, card.user.password, setup_code.ROLE)


def _tell(folder: Path, errors: list[str]) -> None:
    """The errors beside the file, or none there."""
    path = folder / ERRORS
    if errors:
        replace(path, _told(errors), SHARED)
    else:
        path.unlink(missing_ok=True)


def _tell_in(folder: Path, writable_fat: Callable[[], AbstractContextManager[None]], errors: list[str]) -> None:
    """Unless they stand there: a card wears out, and this may be so at each start."""
    path = folder / ERRORS
    if not path.exists() or path.read_bytes() != _told(errors):
        with writable_fat():
            replace(path, _told(errors), SHARED)


def _told(errors: list[str]) -> bytes:
    head = f"What of {cards.FILE} could not be applied. Put it right and start the gateway again.\r\n\r\n"
    return (head + "".join(f"{_line(line)}\r\n" for line in errors)).encode()


@contextmanager
def remounted(mount: Path, remount: Callable[[Path, bool], None]) -> Iterator[None]:
    """The FAT can be written meanwhile, and is read-only before and after: then no power cut can harm it."""
    remount(mount, True)
    try:
        yield
    finally:
        os.sync()
        remount(mount, False)

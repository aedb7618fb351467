"""Who may connect: a password file with one ``name:$argon2id$...`` line for each user.

``verify`` hashes, which takes tens of milliseconds and 19 MiB: call it off the event loop.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import final

from argon2 import PasswordHasher, Type, extract_parameters
from argon2.exceptions import InvalidHashError

from gateway.hashing import matches
from gateway.replacing import locked, replace

MEMORY_KIB = 19 * 1024
_NAME_CHARS_MAX = 1024


class AuthError(Exception):
    """One line: what about the password file or a user cannot be done."""


def _hasher() -> PasswordHasher:
    return PasswordHasher(time_cost=2, memory_cost=MEMORY_KIB, parallelism=1)


@final
class Passwords:
    """The users of one password file. ``verify`` may run on any thread while ``reload`` runs on another."""

    def __init__(self, path: Path, matches: Callable[[str, bytes], bool] = matches) -> None:
        """Raises AuthError when the file is there but cannot be read; no file = no users.

        ``matches(hash, password)`` is what compares.
        """
        self.path = path
        self._matches = matches
        self.damage: list[str] = []  # one line for each line of the file that is no user
        self._hasher = _hasher()
        # An unknown user costs as much as a known one, so that time does not tell who exists.
        self._nobody = self._hasher.hash(os.urandom(16))
        self._hashes: dict[str, str] = {}
        self.reload()

    def reload(self) -> None:
        """Read the file again. Raises AuthError and keeps the users as they were."""
        hashes: dict[str, str] = {}
        damage: list[str] = []
        for number, line in enumerate(_lines(self.path), 1):
            name, colon, hashed = line.partition(":")
            if not line or line.startswith("#"):
                continue
            if not colon or not _is_name(name) or not _is_argon2id(hashed):
                damage.append(f"{self.path}: line {number}: not NAME:$argon2id$...; it lets nobody in")
            elif name in hashes:
                damage.append(f'{self.path}: line {number}: a second line for "{name}"; the first one counts')
            else:
                hashes[name] = hashed
        self._hashes, self.damage = hashes, damage

    def verify(self, username: str, password: bytes) -> bool:
        """Whether this user has this password. Blocks for the time of one hash."""
        hashed = self._hashes.get(username)
        return self._matches(hashed or self._nobody, password) and hashed is not None

    def mark(self, username: str) -> str:
        """Tells one password of a user from the next, and says nothing of either; "" for nobody."""
        hashed = self._hashes.get(username)
        return "" if hashed is None else hashlib.blake2b(hashed.encode(), digest_size=12).hexdigest()

    def names(self) -> list[str]:
        """The users, in the order of the file."""
        return list(self._hashes)

    def add(self, name: str, password: bytes) -> bool:
        """Add a user or change the password; True when the user is new. Raises AuthError."""
        if not _is_name(name):
            raise AuthError(
                f"{name!r}: expected a user name of 1 to {_NAME_CHARS_MAX} printable characters without a colon "
                "and without # at the start"
            )
        if not password:
            raise AuthError("expected a password that is not empty")
        hashed = self._hasher.hash(password)
        with _changing(self.path):
            kept = [line for line in _lines(self.path) if line.partition(":")[0] != name]
            self.reload()
            is_new = name not in self._hashes
            _replace(self.path, [*kept, f"{name}:{hashed}"])
            self.reload()
        return is_new

    def remove(self, name: str) -> None:
        """Remove a user. Raises AuthError when there is none of that name."""
        with _changing(self.path):
            self.reload()
            if name not in self._hashes:
                raise AuthError(f'{self.path}: no user "{name}"')
            _replace(self.path, [line for line in _lines(self.path) if line.partition(":")[0] != name])
            self.reload()


def _is_name(name: str) -> bool:
    return 0 < len(name) <= _NAME_CHARS_MAX and name.isprintable() and ":" not in name and name[0] != "#"


def _is_argon2id(hashed: str) -> bool:
    try:
        return extract_parameters(hashed).type is Type.ID
    except (InvalidHashError, ValueError):
        return False


def _lines(path: Path) -> list[str]:
    try:
        return path.read_bytes().decode(errors="surrogateescape").splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise AuthError(f"{path}: cannot be read: {error.strerror}") from None


@contextmanager
def _changing(path: Path) -> Iterator[None]:
    """One change of the file at a time. Raises AuthError where it cannot be written."""
    try:
        with locked(path):
            yield
    except OSError as error:
        raise AuthError(f"{path}: cannot be written: {error.strerror}") from None


def _replace(path: Path, lines: list[str]) -> None:
    replace(path, "".join(line + "\n" for line in lines).encode(errors="surrogateescape"))

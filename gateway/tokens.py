"""Tokens with which commands of other machines come in over HTTPS: one ``name:role:hash`` line for each.

A token is 256 random bits, so a plain hash keeps it as safe as a slow one would: there is nothing to guess.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, final

from gateway.replacing import locked, replace

FILE: Final = "tokens"  # in the data folder
READ_ONLY: Final = "read-only"
OPERATOR: Final = "operator"
ROLES: Final = (READ_ONLY, OPERATOR)
_PREFIX: Final = "forebay-"  # tells people, and programs that look for secrets, what it is
_NAME_CHARS_MAX: Final = 100


class TokenError(Exception):
    """One line: what about the file or a token cannot be done."""


class Holder(NamedTuple):
    """Whose token it is, and what it may do (ROLES)."""

    name: str
    role: str


@final
class Tokens:
    """The tokens of one file; ``damage`` has a line for each line of it that is no token."""

    def __init__(self, path: Path) -> None:
        """Raises TokenError when the file is there but cannot be read; no file = no tokens."""
        self.path = path
        self.damage: list[str] = []
        self._hashes: dict[Holder, str] = {}
        self._read_at: tuple[int, int] | None = None
        self.reload()

    def reload(self) -> None:
        """Read the file again. Raises TokenError and keeps the tokens as they were."""
        found: dict[Holder, str] = {}
        damage: list[str] = []
        for number, line in enumerate(self._lines(), 1):
            if not line or line.startswith("#"):
                continue
            name, _, rest = line.partition(":")
            role, _, hashed = rest.partition(":")
            if not _is_name(name) or role not in ROLES or not _is_hash(hashed):
                damage.append(f"{self.path}: line {number}: not NAME:ROLE:HASH; it lets nobody in")
            elif any(holder.name == name for holder in found):
                damage.append(f'{self.path}: line {number}: a second line for "{name}"; the first one counts')
            else:
                found[Holder(name, role)] = hashed
        self._hashes, self.damage = found, damage

    def refresh(self) -> None:
        """Read the file again when it is another; one that cannot be read lets nobody in."""
        try:
            stat = self.path.stat()
            at = stat.st_mtime_ns, stat.st_ino
        except OSError:
            at = None
        if at == self._read_at:
            return
        self._read_at = at
        try:
            self.reload()
        except TokenError:
            self._hashes = {}

    def holder(self, token: str) -> Holder | None:
        """Whose it is. Takes as long for one token as for another."""
        given, found = _hash(token), None
        for holder, hashed in self._hashes.items():
            if hmac.compare_digest(hashed, given):
                found = holder
        return found

    def holders(self) -> list[Holder]:
        """All of them, in the order of the file."""
        return list(self._hashes)

    def make(self, name: str, role: str) -> str:
        """A new token, which is told here and never again. Raises TokenError."""
        if not _is_name(name):
            raise TokenError(f"{name!r}: expected a name of 1 to {_NAME_CHARS_MAX} printable characters without : or #")
        if role not in ROLES:
            raise TokenError(f"{role}: expected one of {', '.join(ROLES)}")
        token = _PREFIX + secrets.token_urlsafe(32)
        with self._changing() as lines:
            if any(holder.name == name for holder in self._hashes):
                raise TokenError(f'{self.path}: there is a token "{name}" already; revoke it first')
            lines.append(f"{name}:{role}:{_hash(token)}")
        return token

    def revoke(self, name: str) -> None:
        """It comes in no more. Raises TokenError when there is none of that name."""
        with self._changing() as lines:
            if not any(holder.name == name for holder in self._hashes):
                raise TokenError(f'{self.path}: no token "{name}"')
            lines[:] = [line for line in lines if line.partition(":")[0] != name]

    @contextmanager
    def _changing(self) -> Iterator[list[str]]:
        try:
            with locked(self.path):
                self.reload()
                lines = self._lines()
                yield lines
                replace(self.path, "".join(line + "\n" for line in lines).encode(errors="surrogateescape"))
                self.reload()
        except OSError as error:
            raise TokenError(f"{self.path}: cannot be written: {error.strerror}") from None

    def _lines(self) -> list[str]:
        try:
            return self.path.read_bytes().decode(errors="surrogateescape").splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise TokenError(f"{self.path}: cannot be read: {error.strerror}") from None


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def _is_name(name: str) -> bool:
    return 0 < len(name) <= _NAME_CHARS_MAX and name.isprintable() and ":" not in name and "#" not in name


def _is_hash(text: str) -> bool:
    return len(text) == 64 and not text.strip("0123456789abcdef")

"""mosquitto.conf as lines, those of include_dir among them, and the acl_file and password_file that it names."""

from pathlib import Path
from typing import NamedTuple

from gateway.imports.table import ImportFileError

ACCESSES = ("read", "write", "readwrite", "deny")


class Line(NamedTuple):
    """One setting; ``where`` is "line 7", of an included file with its name."""

    where: str
    key: str
    value: str

    @property
    def source(self) -> str:
        """For a comment beside what came of it."""
        return f"{self.key} {self.value} ({self.where})"


class AclLine(NamedTuple):
    """One rule. ``user`` is None for clients without a name; a ``pattern`` is for everybody."""

    where: str
    user: str | None
    pattern: bool
    access: str
    topic: str


def read(text: str, folder: Path, name: str = "", depth: int = 0) -> list[Line]:
    """The settings in their order. Raises ImportFileError for a line that is no setting."""
    lines: list[Line] = []
    for number, raw in enumerate(text.splitlines(), 1):
        stripped = raw.strip()
        if not stripped or stripped.startswith("#"):
            continue
        key, _, value = stripped.partition(" ")
        line = Line(f"{name + ' ' if name else ''}line {number}", key, value.strip())
        if not key.replace("_", "").replace("-", "").replace(".", "").isalnum():
            raise ImportFileError(f"{line.where}: {key[:40]}: expected a setting of mosquitto.conf")
        if key == "include_dir":
            if depth:
                raise ImportFileError(f"{line.where}: include_dir: expected in the first file only")
            for file in included(line, folder):
                lines += read(text_of(file, line), folder, file.name, depth + 1)
        else:
            lines.append(line)
    return lines


def included(line: Line, folder: Path) -> list[Path]:
    found = folder / line.value
    if not found.is_dir():
        raise ImportFileError(f"{line.where}: include_dir {line.value}: expected a folder")
    return sorted(found.glob("*.conf"))


def text_of(file: Path, line: Line) -> str:
    """Raises ImportFileError."""
    try:
        return file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ImportFileError(f"{line.where}: {line.key}: {file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ImportFileError(f"{line.where}: {line.key}: {file}: not UTF-8 at byte {error.start}") from None


def read_acl(text: str, name: str) -> list[AclLine]:
    """The rules of an acl_file. Raises ImportFileError."""
    rules: list[AclLine] = []
    user: str | None = None
    for number, raw in enumerate(text.splitlines(), 1):
        stripped = raw.strip()
        if not stripped or stripped.startswith("#"):
            continue
        where = f"{name} line {number}"
        key, _, value = stripped.partition(" ")
        value = value.strip()
        if key == "user" and value:
            user = value
        elif key in ("topic", "pattern") and value:
            first, _, rest = value.partition(" ")
            access, topic = (first, rest.strip()) if first in ACCESSES and rest else ("readwrite", value)
            rules.append(AclLine(where, None if key == "pattern" else user, key == "pattern", access, topic))
        else:
            raise ImportFileError(f"{where}: {stripped[:40]}: expected user NAME, topic or pattern")
    return rules


def users_of(text: str) -> list[str]:
    """The names in a password_file."""
    return [line.partition(":")[0] for line in text.splitlines() if ":" in line and not line.startswith("#")]

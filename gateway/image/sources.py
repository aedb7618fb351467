"""Where packages come from: the Debian entries of the build machine's own apt, so that the project names no mirror."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from gateway.image.plan import BuildError

SUITE = "bookworm"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_PARTS = ("", "-updates", "-security", "/updates")


@final
@dataclass(frozen=True, slots=True)
class Source:
    """One line of sources.list; ``signed_by`` is a file, or empty."""

    uri: str
    suite: str
    components: tuple[str, ...]
    signed_by: str = ""

    def line(self) -> str:
        """As apt reads it."""
        return f"deb [signed-by={self.signed_by or KEYRING}] {self.uri} {self.suite} {' '.join(self.components)}"


def find(folder: Path, components: Sequence[str] = ()) -> list[Source]:
    """The entries of ``/etc/apt`` for Debian's stable packages, with these components as well. Raises BuildError."""
    found: list[Source] = []
    for path in [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]:
        if not path.is_file():
            continue
        text = path.read_text(errors="replace")
        found += parse_deb822(text) if path.suffix == ".sources" else parse_lines(text)
    # other people's archives may have a suite of the same name, but they hold no part of Debian's
    debian = [source for source in found if _is_debian(source)]
    if not any(source.suite == SUITE for source in debian):
        raise BuildError(f"{folder}: no source for the suite {SUITE}: expected Debian's, the images are built from it")
    wanted = [replace(source, components=_with(source.components, components)) for source in debian]
    return list(dict.fromkeys(wanted))


def _is_debian(source: Source) -> bool:
    return "main" in source.components and source.suite in {SUITE + part for part in _PARTS}


def _with(components: Sequence[str], more: Sequence[str]) -> tuple[str, ...]:
    return (*components, *(name for name in more if name not in components))


def parse_lines(text: str) -> Iterator[Source]:
    """Entries of the one-line style."""
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if len(words) < 4 or words[0] != "deb":
            continue
        signed = ""
        if words[1].startswith("["):
            end = next((at for at, word in enumerate(words) if word.endswith("]")), len(words))
            options = " ".join(words[1 : end + 1]).strip("[] ").split()
            signed = next((word.partition("=")[2] for word in options if word.startswith("signed-by=")), "")
            words = ["deb", *words[end + 1 :]]
        if len(words) >= 4:
            yield Source(words[1], words[2], tuple(words[3:]), signed)


def parse_deb822(text: str) -> Iterator[Source]:
    """Entries of the style with fields."""
    for paragraph in text.split("\n\n"):
        fields: dict[str, str] = {}
        key = ""
        for line in paragraph.splitlines():
            if line.startswith("#"):
                continue
            if line[:1].isspace():
                fields[key] = f"{fields.get(key, '')} {line.strip()}"
            elif ":" in line:
                key, _, value = line.partition(":")
                key = key.strip().lower()
                fields[key] = value.strip()
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() == "no":
            continue
        signed = fields.get("signed-by", "")
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                yield Source(
                    uri, suite, tuple(fields.get("components", "").split()), signed if signed.startswith("/") else ""
                )

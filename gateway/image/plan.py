"""What an image consists of: ``images/BOARD/image.toml``, read and checked."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

MIB: Final = 1 << 20
SETTINGS_MIB: Final = 16
FIRST_MIB: Final = 1  # where the first partition begins
ARCHITECTURES: Final = {"amd64": "x86_64", "arm64": "aarch64"}  # as Debian and as Python call them
EFI: Final = "efi"
PI: Final = "pi"


class BuildError(Exception):
    """One line: what cannot be built or verified, and why."""


@final
@dataclass(frozen=True, slots=True)
class Partition:
    """``start`` and ``size`` are MiB; ``kind`` is the type as genimage takes it."""

    name: str
    start: int
    size: int
    kind: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One image. ``modules_early``: loaded by the initrd; ``modules_keep``: path prefixes that stay in the root."""

    board: str
    folder: Path
    description: str
    arch: str
    kernel: str
    boot: str
    consoles: tuple[str, ...]
    compatible: str
    packages: tuple[str, ...]
    efi_loader: tuple[str, ...]
    device_trees: tuple[str, ...]
    components: tuple[str, ...]  # of Debian, beside those of the build machine
    boot_mib: int
    slot_mib: int
    data_mib: int
    modules_early: tuple[str, ...]
    modules_keep: tuple[str, ...]

    @property
    def machine(self) -> str:
        """The architecture as Python and the kernel call it."""
        return ARCHITECTURES[self.arch]

    @property
    def is_gpt(self) -> bool:
        return self.boot == EFI

    @property
    def data_number(self) -> int:
        """The data partition is the last one, so that it can grow."""
        return len(self.partitions())

    def partitions(self) -> list[Partition]:
        """In the order of the disk; the settings have one of their own where the table has room for it."""
        data, linux = ("L", "L") if self.is_gpt else ("0x83", "0x83")
        rows = [("boot", self.boot_mib, "U" if self.is_gpt else "0x0c")]
        rows += [("root-a", self.slot_mib, linux), ("root-b", self.slot_mib, linux)]
        if self.is_gpt:
            rows.append(("settings", SETTINGS_MIB, "F"))
        rows.append(("data", self.data_mib, data))
        found, at = [], FIRST_MIB
        for name, size, kind in rows:
            found.append(Partition(name, at, size, kind))
            at += size
        return found

    def command_line(self, slot: str) -> str:
        """Of the kernel, for one slot."""
        words = [
            f"forebay.slot={slot}",
            f"rauc.slot={slot}",
            f"forebay.boot={self.boot}",
            f"forebay.data={self.data_number}",
        ]
        words += [f"console={console}" for console in self.consoles]
        return " ".join([*words, "systemd.gpt_auto=0", "quiet", "panic=10"])


_TEXTS: Final = ("description", "arch", "kernel", "boot", "compatible")
_LISTS: Final = ("consoles", "packages", "efi_loader", "device_trees", "components")
_SIZES: Final = ("boot_mib", "slot_mib", "data_mib")
_CHOICES: Final = {"arch": tuple(ARCHITECTURES), "boot": (EFI, PI)}


def boards(images: Path) -> list[str]:
    """The boards that an image can be built for."""
    return sorted(path.parent.name for path in images.glob("*/image.toml"))


def read_plan(images: Path, board: str) -> Plan:
    """Raises BuildError."""
    path = images / board / "image.toml"
    try:
        table = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise BuildError(f"{path}: cannot be read: {error}") from None
    modules = table.get("modules", {})
    known = {*_TEXTS, *_LISTS, *_SIZES, "modules"}
    for key in table.keys() - known:
        raise BuildError(f"{path}: {key}: unknown key; expected {', '.join(sorted(known))}")
    for key in _TEXTS:
        allowed = _CHOICES.get(key)
        if not isinstance(table.get(key), str) or (allowed and table[key] not in allowed):
            raise BuildError(f"{path}: {key} = {table.get(key)!r}: expected {' or '.join(allowed or ('text',))}")
    for key in _SIZES:
        if type(table.get(key)) is not int or table[key] < 1:
            raise BuildError(f"{path}: {key} = {table.get(key)!r}: expected a number of MiB")
    found: dict[str, Any] = {key: table[key] for key in (*_TEXTS, *_SIZES)}
    found |= {key: _list(path, table, key) for key in _LISTS}
    kept = {key: _list(path, modules, key) for key in ("early", "keep")}
    return Plan(
        board=board,
        folder=path.parent,
        modules_early=kept["early"],
        modules_keep=kept["keep"],
        **found,
    )


def _list(path: Path, table: dict[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BuildError(f"{path}: {key} = {value!r}: expected a list of texts")
    return tuple(value)

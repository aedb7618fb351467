"""The initrd: busybox, the kernel modules that the disk needs, and ``images/initramfs/init``.

The archive is written here, so that it is the same bytes each time.
"""

import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

_TRAILER: Final = "TRAILER!!!"


class Entry(NamedTuple):
    """One name of the archive. ``mode`` as stat has it."""

    name: str
    mode: int
    data: bytes = b""


def newc(entries: Iterable[Entry]) -> bytes:
    """A cpio archive of the kind that the kernel unpacks, all owned by root and as old as the epoch."""
    out = bytearray()
    for number, entry in enumerate([*entries, Entry(_TRAILER, 0)], 1):
        name = entry.name.encode() + b"\0"
        links = 2 if stat.S_ISDIR(entry.mode) else 1
        fields = (number, entry.mode, 0, 0, links, 0, len(entry.data), 0, 0, 0, 0, len(name), 0)
        out += b"070701" + b"".join(b"%08x" % field for field in fields) + name
        out += bytes(-len(out) % 4)
        out += entry.data
        out += bytes(-len(out) % 4)
    return bytes(out)


def dependencies(text: str) -> dict[str, list[str]]:
    """``modules.dep``: the file of each module -> the files that it needs, the nearest first."""
    found = {}
    for line in text.splitlines():
        path, colon, needs = line.partition(":")
        if colon:
            found[path] = needs.split()
    return found


def module_name(path: str) -> str:
    """As modprobe knows it: ``kernel/fs/ext4/ext4.ko.xz`` is ext4."""
    return path.rpartition("/")[2].partition(".")[0].replace("-", "_")


def kept(needs: Mapping[str, Sequence[str]], prefixes: Sequence[str]) -> set[str]:
    """The files of all modules below these paths, and of all that they need."""
    whole = tuple(f"kernel/{prefix}" for prefix in prefixes)
    found: set[str] = set()
    for path, others in needs.items():
        if any(path.startswith(one) and (path[len(one) :][:1] in ("", "/", ".")) for one in whole):
            found.add(path)
            found.update(others)
    return found


def named(needs: Mapping[str, Sequence[str]], names: Sequence[str]) -> list[str]:
    """The files of these modules and of what they need, sorted; those that are built in, or not there, have none."""
    by_name = {module_name(path): path for path in needs}
    found: set[str] = set()
    for name in names:
        path = by_name.get(name.replace("-", "_"))
        if path is not None:
            found.update((path, *needs[path]))
    return sorted(found)


def entries(root: Path, release: str, init: bytes, early: Sequence[str]) -> list[Entry]:
    """What the initrd of this root holds; ``release`` is the kernel's."""
    modules = Path("lib/modules") / release
    needs = dependencies((root / modules / "modules.dep").read_text())
    files = named(needs, early)
    found = {
        "init": Entry("init", stat.S_IFREG | 0o755, init),
        "bin/busybox": Entry("bin/busybox", stat.S_IFREG | 0o755, (root / "bin/busybox").read_bytes()),
        "bin/sh": Entry("bin/sh", stat.S_IFLNK | 0o777, b"busybox"),
        "modules": Entry("modules", stat.S_IFREG | 0o644, "".join(f"{name}\n" for name in early).encode()),
    }
    for path in files:
        name = str(modules / path)
        found[name] = Entry(name, stat.S_IFREG | 0o644, (root / name).read_bytes())
    listed = "".join(f"{path}: {' '.join(needs[path])}".rstrip() + "\n" for path in files)
    found[str(modules / "modules.dep")] = Entry(str(modules / "modules.dep"), stat.S_IFREG | 0o644, listed.encode())
    return _with_folders(found)


def _with_folders(found: Mapping[str, Entry]) -> list[Entry]:
    """Folders before what they hold."""
    folders = {"dev", "proc", "sys", "run", "root"}
    folders.update(str(parent) for name in found for parent in Path(name).parents if str(parent) != ".")
    return [
        *(Entry(name, stat.S_IFDIR | 0o755) for name in sorted(folders)),
        *(found[name] for name in sorted(found)),
    ]

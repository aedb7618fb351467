"""The first start makes a disk its own: new ids, since all flashed ones are alike, and data to the end of the disk."""

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from uuid import UUID

SECTOR: Final = 512
SLACK_BYTES: Final = 8 << 20  # not worth a change of the table
_PARTITION: Final = re.compile(r"(\S+) : (.*)")


class GrowthError(Exception):
    """One line: what of the disk could not be changed."""


def new_table(dump: str, disk_bytes: int, shipped_id: str, make_id: Callable[[], UUID]) -> str | None:
    """What ``sfdisk`` is to write, from what ``sfdisk --dump`` said; None when the table can stay.

    The last partition grows to the end of the disk. A disk that still has ``shipped_id`` gets ids of its own.
    Raises GrowthError.
    """
    head, rows = _parsed(dump)
    if not rows or "label-id" not in head:
        raise GrowthError("sfdisk shows no partitions")
    sector = int(head.get("sector-size", SECTOR))
    last = dict(_fields(rows[-1][1]))
    end = (int(last["start"]) + int(last["size"])) * sector
    grows = disk_bytes - end > SLACK_BYTES
    renamed = head["label-id"].lower() == shipped_id.lower()
    if not grows and not renamed:
        return None
    is_gpt = head.get("label") == "gpt"
    if renamed:
        number = make_id()
        head["label-id"] = str(number).upper() if is_gpt else f"0x{number.time_low:08x}"
    lines = [f"{key}: {value}" for key, value in head.items() if key in ("label", "label-id", "unit", "sector-size")]
    lines.append("")
    for at, (device, text) in enumerate(rows):
        fields = [(key, value) for key, value in _fields(text) if not (grows and at == len(rows) - 1 and key == "size")]
        if renamed and is_gpt:
            fields = [(key, str(make_id()).upper() if key == "uuid" else value) for key, value in fields]
        lines.append(f"{device} : " + ", ".join(f"{key}={value}" if value else key for key, value in fields))
    return "\n".join(lines) + "\n"


def _parsed(dump: str) -> tuple[dict[str, str], list[tuple[str, str]]]:
    head: dict[str, str] = {}
    rows: list[tuple[str, str]] = []
    for line in dump.splitlines():
        if found := _PARTITION.fullmatch(line):
            rows.append((found[1], found[2]))
        elif ": " in line:
            key, _, value = line.partition(": ")
            head[key] = value.strip()
    return head, rows


def _fields(text: str) -> list[tuple[str, str]]:
    pairs = [item.strip().partition("=") for item in text.split(",")]
    return [(key.strip(), value.strip()) for key, _, value in pairs]


def grow(disk: str, data: str, mounted: Path, shipped_id: str, make_id: Callable[[], UUID]) -> list[str]:
    """Do it, while the data partition is in use; what was done, a line each. Raises GrowthError."""
    said = []
    dump = _run(["sfdisk", "--dump", disk])
    table = new_table(dump, _bytes(disk), shipped_id, make_id)
    if table is not None:
        # the partitions in use stay where they are: the kernel is told of the last one alone
        _run(["sfdisk", "--no-reread", "--force", "--no-tell-kernel", disk], table)
        _run(["partx", "--update", "--nr", re.sub(r"^.*?([0-9]+)$", r"\1", data), disk])
        said.append(f"{disk}: partition table written anew")
    stat = os.statvfs(mounted)
    # what the file system takes for itself is not in its blocks
    if stat.f_blocks * stat.f_frsize < 0.9 * _bytes(data):
        _run(["resize2fs", data])
        stat = os.statvfs(mounted)
        said.append(f"{data}: {stat.f_blocks * stat.f_frsize >> 20} MiB")
    return said


def _bytes(device: str) -> int:
    try:
        with open(device, "rb") as file:
            return file.seek(0, os.SEEK_END)
    except OSError as error:
        raise GrowthError(f"{device}: cannot be read: {error.strerror}") from None


def _run(command: Sequence[str], text: str = "") -> str:
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    except OSError as error:
        raise GrowthError(f"{command[0]}: cannot be started: {error.strerror}") from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise GrowthError(f"{' '.join(command)}: {' / '.join(said[-3:]) or done.returncode}")
    return done.stdout

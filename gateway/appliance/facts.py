"""What the initrd found at this start: the disk, its partitions, and the state of the data partition; which image."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

PATH: Final = Path("/run/forebay-boot.env")
ABOUT: Final = Path("/usr/lib/forebay/image.json")
OK: Final = "ok"
REPAIRED: Final = "repaired"
READ_ONLY: Final = "read-only"
ABSENT: Final = "absent"


@final
@dataclass(frozen=True, slots=True)
class Facts:
    """Devices are paths; ``slot`` is "a" or "b"; ``data_state`` is one of the words above, ``data_reason`` says why."""

    disk: str
    slot: str
    boot: str
    root_a: str
    root_b: str
    settings: str
    data: str
    data_state: str
    data_reason: str

    @property
    def is_writable(self) -> bool:
        """Whether what is written to the data partition outlives this start."""
        return self.data_state in (OK, REPAIRED)


def parse(text: str) -> Facts:
    """Raises ValueError that names what is missing."""
    found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    names = {name: name.upper() for name in Facts.__dataclass_fields__}
    missing = [key for key in names.values() if key not in found]
    if missing:
        raise ValueError(f"{', '.join(missing)}: not there")
    return Facts(**{name: found[key].strip().strip('"') for name, key in names.items()})


def read(path: Path = PATH) -> Facts | None:
    """None on a machine that was not started from an image. Raises ValueError."""
    try:
        return parse(path.read_text())
    except FileNotFoundError:
        return None


def why_forgotten(path: Path = PATH) -> str:
    """Why nothing that is written on this image outlives the start; "" where it does, and on other machines."""
    try:
        found = read(path)
    except (OSError, ValueError):
        return ""
    return "" if found is None or found.is_writable else f"data partition {found.data}: {found.data_reason}"


def about(path: Path = ABOUT) -> dict[str, Any]:
    """Which image this is; empty on another machine."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}

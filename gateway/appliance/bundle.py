"""Signed bundles of RAUC (format verity): what is in one, whether it is whole, and whether it is for this machine."""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.appliance.journal import Version
from gateway.appliance.verity import root_hash

_LINE: Final = re.compile(
    r"^\s*(Compatible|Version|Build|Verity Salt|Verity Hash|Verity Size):\s+'?(.*?)'?$", re.MULTILINE
)
_BUILD: Final = re.compile(r"schema=(\d+) min_reader=(\d+)")
_TAIL_BYTES: Final = 8  # how long the signature before it is


class BundleError(Exception):
    """A bundle that is refused; one line for people."""


@dataclass(frozen=True)
class Bundle:
    """What the signed manifest says; ``holds`` is the program in it."""

    path: Path
    compatible: str
    holds: Version


def build_field(version: Version) -> str:
    """What the manifest says of the data, in the one field that it has for free text."""
    return f"schema={version.schema} min_reader={version.min_reader}"


def read_bundle(path: Path, trust: Sequence[str]) -> Bundle:
    """A bundle whose signature and whole payload are right. Raises BundleError.

    ``trust``: options for rauc that say whose signatures count, ``--conf`` or ``--keyring``.
    """
    try:
        tail = path.stat().st_size
        done = subprocess.run(["rauc", *trust, "info", path], capture_output=True, text=True, check=False)
    except OSError as error:
        name = error.filename if error.filename else path
        raise BundleError(f"{name}: {error.strerror}") from None
    if done.returncode:
        raise BundleError(f"{path}: {_reason(done.stderr)}")
    said = dict(_LINE.findall(done.stdout))
    build = _BUILD.fullmatch(said.get("Build", ""))
    if build is None or "Verity Hash" not in said:
        raise BundleError(f"{path}: signed, but no bundle of Forebay")
    try:
        with path.open("rb") as source:
            source.seek(tail - _TAIL_BYTES)
            signature = int.from_bytes(source.read(_TAIL_BYTES), "big")
        payload = tail - _TAIL_BYTES - signature - int(said["Verity Size"])
        found = root_hash(path, payload, bytes.fromhex(said["Verity Salt"]))
    except (OSError, ValueError) as error:
        raise BundleError(f"{path}: {error}") from None
    if found.hex() != said["Verity Hash"]:
        raise BundleError(f"{path}: damaged or tampered with: its payload is not what was signed")
    return Bundle(path, said["Compatible"], Version(said["Version"], int(build[1]), int(build[2])))


def require_fit(bundle: Bundle, compatible: str, running: Version, data_min_reader: int, no_rollback: bool) -> None:
    """Raise BundleError when the bundle is for another board, or the data and the programs would not fit together."""
    new = bundle.holds
    if bundle.compatible != compatible:
        raise BundleError(f"{bundle.path}: for the board {bundle.compatible}, this one is {compatible}")
    if new.schema < data_min_reader:
        raise BundleError(
            f"{bundle.path}: version {new.version} cannot read the data that are here"
            f" (it knows schema {new.schema}, they need {data_min_reader})"
        )
    if new.min_reader > running.schema and not no_rollback:
        raise BundleError(
            f"{bundle.path}: version {new.version} changes the data so that {running.version} could not read them any"
            f" more (schema {new.min_reader}, it knows {running.schema}): no way back, which --no-rollback accepts"
        )


def _reason(said: str) -> str:
    """What rauc complains of, from the last of its lines."""
    lines = [line for line in said.splitlines() if line.strip()]
    last = re.sub(r"^.*?\d\d:\d\d:\d\d\.\d+:\s*", "", lines[-1]) if lines else "rauc failed"
    return " ".join(last.split())

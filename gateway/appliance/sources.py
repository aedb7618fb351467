"""Where an update comes from: a file, a USB stick, a web server."""

import contextlib
import hashlib
import http.client
import json
import os
import re
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from gateway.appliance.disks import DiskError, ask_lsblk
from gateway.figures import size

SUFFIX: Final = ".raucb"
_TIMEOUT_S: Final = 30.0
_CHUNK_BYTES: Final = 1 << 20
_INDEX_BYTES_MAX: Final = 65_536
ROOM_BYTES: Final = 64 << 20  # of the data partition, that a download leaves to messages

Progress = Callable[[int, int], None]
"""Gets bytes and of how many (0: not known)."""


class SourceError(Exception):
    """No update is to be had there; one line for people."""


def is_web(source: str) -> bool:
    return source.startswith(("http://", "https://"))


def index_name(compatible: str) -> str:
    """What lies beside the bundles on a web server and says which is the newest."""
    return f"{compatible}.json"


def write_index(bundle: Path, compatible: str, version: str) -> Path:
    """Beside the bundle. It is signed by nobody and trusted with nothing: what counts is in the bundle."""
    with bundle.open("rb") as source:
        checksum = hashlib.file_digest(source, "sha256").hexdigest()
    told = {"version": version, "bundle": bundle.name, "bytes": bundle.stat().st_size, "sha256": checksum}
    path = bundle.with_name(index_name(compatible))
    path.write_text(json.dumps(told, indent=1) + "\n")
    return path


def newest(url: str, compatible: str) -> dict[str, Any]:
    """What a web server has for this board, without the bundle. Raises SourceError.

    ``url`` ends with .raucb for one bundle, else it is the folder of the index.
    """
    if url.endswith(SUFFIX):
        return {"version": "", "bundle": url}
    address = f"{url.rstrip('/')}/{index_name(compatible)}"
    with _open(address) as answer:
        text = _read(address, answer, _INDEX_BYTES_MAX)
    try:
        told = json.loads(text)
        bundle = urllib.parse.urljoin(address, told["bundle"])
        if not is_web(bundle):
            raise ValueError(f"bundle {bundle}: expected a place on a web server")
        return {**told, "version": str(told["version"]), "bundle": bundle}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SourceError(f"{address}: no index of updates: {type(error).__name__}: {error}") from None


def download(url: str, target: Path, progress: Progress) -> None:
    """All of it, or nothing is left. Raises SourceError."""
    part = target.with_name(target.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _open(url) as answer, part.open("wb") as out:
            total = answer.length or 0
            _require_room(url, target.parent, total)
            done = 0
            while chunk := _read(url, answer, _CHUNK_BYTES):
                if not total:
                    _require_room(url, target.parent, len(chunk))
                out.write(chunk)
                done += len(chunk)
                progress(done, total)
            if total and done != total:
                raise SourceError(f"{url}: ended after {done} of {total} bytes")
        os.replace(part, target)
    except OSError as error:
        raise SourceError(f"{target.parent}: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _require_room(url: str, folder: Path, count: int) -> None:
    """Raise SourceError when messages would have too little room beside so many bytes."""
    there = os.statvfs(folder)
    left = there.f_bavail * there.f_frsize
    if count + ROOM_BYTES > left:
        raise SourceError(f"{url}: {size(count)}, but {folder} has {size(left)} left, and {size(ROOM_BYTES)} must stay")


@contextmanager
def stick(compatible: str) -> Iterator[Path]:
    """The newest bundle for this board on a removable disk, mounted read-only meanwhile. Raises SourceError."""
    looked = []
    for device, mounts in removable():
        looked.append(device)
        with _mounted(device, mounts) as folder:
            found = on_stick(folder, compatible)
            if found is not None:
                yield found
                return
    where = f"none of {', '.join(looked)} has one" if looked else "no removable disk is here"
    raise SourceError(f"no update for {compatible} on a USB stick: {where}")


def on_stick(folder: Path, compatible: str) -> Path | None:
    """The bundle with the highest version in its name, in the folder itself or in one named forebay."""
    found = [
        path
        for place in (folder, folder / "forebay")
        for path in place.glob(f"*{SUFFIX}")
        if path.is_file()
        and path.name.startswith("forebay-")
        and path.name.endswith(f"-{compatible.removeprefix('forebay-')}{SUFFIX}")
    ]
    return max(found, key=_version, default=None)


def _version(path: Path) -> list[int]:
    return [int(part) if re.fullmatch("[0-9]{1,9}", part) else 0 for part in path.name.split("-")[1].split(".")]


def removable() -> list[tuple[str, list[str]]]:
    """File systems on removable disks, and where each is mounted. Raises SourceError."""
    try:
        found = ask_lsblk()
    except DiskError as error:
        raise SourceError(str(error)) from None
    return [(str(part.path), part.mounts) for disk in found if disk.removable for part in disk.parts or [disk]]


@contextmanager
def _mounted(device: str, mounts: list[str]) -> Iterator[Path]:
    if mounts:
        yield Path(mounts[0])
        return
    with tempfile.TemporaryDirectory(prefix="forebay-stick-") as folder:
        words = ["mount", "-o", "ro,nosuid,nodev,noexec", device, folder]
        if subprocess.run(words, capture_output=True, check=False).returncode:
            yield Path(folder)  # no file system: an empty folder
            return
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=False)


def _open(url: str) -> http.client.HTTPResponse:
    """Raises SourceError."""
    try:
        return cast(http.client.HTTPResponse, urllib.request.urlopen(url, timeout=_TIMEOUT_S))
    except urllib.error.HTTPError as error:
        error.close()
        raise SourceError(f"{url}: the server answers {error.code} {error.reason}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise _trouble(url, getattr(error, "reason", error)) from None


def _read(url: str, answer: http.client.HTTPResponse, count: int) -> bytes:
    """Raises SourceError."""
    try:
        return answer.read(count)
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise _trouble(url, error) from None


def _trouble(url: str, error: Any) -> SourceError:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return SourceError(f"{url}: {' '.join(text.split())}")

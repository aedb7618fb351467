"""The whole gateway in one file: copied while it serves, checked before it counts, restored whole or not at all.

The file is a plain tar: ``manifest.json`` first, then the database and the files that belong to it, each with the size
and SHA-256 that the manifest gives.
"""

import hashlib
import json
import os
import sqlite3
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, final

from gateway.replacing import hand_over
from gateway.store.connection import one_line
from gateway.store.lock import DirectoryLock
from gateway.store.migrations import SCHEMA, versions
from gateway.store.salvage import beside

DATABASE: Final = "forebay.db"
_MANIFEST: Final = "manifest.json"
_FORMAT: Final = 1
_STEP_PAGES: Final = 256  # 1 MiB
_CHUNK_BYTES: Final = 1 << 20
_MANIFEST_BYTES_MAX: Final = 1 << 20

Progress = Callable[[int, int], None]
"""(done, of all) in pages."""


@final
class BackupError(Exception):
    """One line for the operator: which file, and what is wrong with it."""


class Member(NamedTuple):
    """One file of a backup; ``path`` is where it came from, empty for the database."""

    bytes: int
    sha256: str
    path: str


class Manifest(NamedTuple):
    forebay: str
    taken: str
    schema: int
    members: dict[str, Member]


def take(
    data_dir: Path, files: Mapping[str, Path], target: Path, version: str, taken: str, progress: Progress
) -> Manifest:
    """Write a backup of ``data_dir``, of a running gateway or of one that rests, and of ``files`` (name -> where).

    What was acknowledged before the call is in it. Raises BackupError; nothing is left at ``target`` then.
    """
    source = data_dir / DATABASE
    if not source.is_file():
        raise BackupError(f"{source}: there is no database to back up")
    copy, part = beside(target, ".database"), beside(target, ".part")
    try:
        with removed(copy, part):
            schema = _copy(source, copy, progress)
            sources = {DATABASE: (copy, ""), **{name: (path, str(path)) for name, path in files.items()}}
            members = {name: Member(path.stat().st_size, _hash(path), where) for name, (path, where) in sources.items()}
            manifest = Manifest(version, taken, schema, members)
            _write(part, manifest, {name: path for name, (path, _) in sources.items()})
            check(part)
            os.replace(part, target)
            _sync_folder(target.parent)
    except OSError as error:
        raise BackupError(f"{target}: cannot be written: {error.strerror or error}") from error
    return manifest


def check(file: Path) -> Manifest:
    """Read all of a backup and compare it with its manifest. Raises BackupError."""
    with _opened(file) as (tar, manifest):
        for name, member in manifest.members.items():
            for _ in _chunks(file, tar, name, member):
                pass
    return manifest


def restore(file: Path, data_dir: Path, stamp: str, replace: bool, files: bool = True) -> list[str]:
    """Put a backup in place, all of it or nothing; what it did, a line each.

    What is there already stays unless ``replace``, and even then beside the new one, its name ending in ``stamp``.
    Raises BackupError or, when a gateway serves ``data_dir``, StoreError.
    """
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        lock = DirectoryLock(data_dir / "forebay.lock")
    except OSError as error:
        raise BackupError(f"{data_dir}: cannot be written: {error.strerror or error}") from error
    try:
        with _opened(file) as (tar, manifest):
            return _restore(file, tar, manifest, data_dir, stamp, replace, files)
    except OSError as error:
        raise BackupError(f"{error.filename or data_dir}: cannot be written: {error.strerror or error}") from error
    finally:
        lock.release()


def _restore(
    file: Path, tar: tarfile.TarFile, manifest: Manifest, data_dir: Path, stamp: str, replace: bool, files: bool
) -> list[str]:
    places = {name: Path(member.path) if member.path else data_dir / name for name, member in manifest.members.items()}
    wanted = [name for name in places if files or name == DATABASE]
    if not replace:
        for name in wanted:
            if places[name].exists():
                raise BackupError(f"{places[name]}: is there already; --replace puts it aside")
    parts = {name: beside(places[name], ".restoring") for name in wanted}
    done = []
    with removed(*parts.values()):
        for name in wanted:
            parts[name].parent.mkdir(parents=True, exist_ok=True)
            with _private(parts[name]) as out:
                for chunk in _chunks(file, tar, name, manifest.members[name]):
                    out.write(chunk)
                out.flush()
                os.fsync(out.fileno())
            hand_over(parts[name], places[name] if places[name].exists() else data_dir)
        _verify(file, parts[DATABASE])
        for name in wanted:
            for old in (places[name], beside(places[name], "-wal"), beside(places[name], "-shm")):
                if old.exists():
                    os.replace(old, beside(old, f".{stamp}"))
                    done.append(f"{old}: put aside as {old.name}.{stamp}")
            os.replace(parts[name], places[name])
            _sync_folder(places[name].parent)
            done.append(f"{places[name]}: restored")
    return done


def _copy(source: Path, copy: Path, progress: Progress) -> int:
    """One moment of the database, while others write to it; its schema version."""
    copy.unlink(missing_ok=True)
    try:
        origin = sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
        try:
            origin.execute("BEGIN")  # else every commit of the gateway would begin the copy anew
            schema, _ = versions(origin)
            os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            target = sqlite3.connect(copy, isolation_level=None)
            try:
                target.execute("PRAGMA synchronous = OFF")
                origin.backup(target, pages=_STEP_PAGES, progress=lambda _s, left, all: progress(all - left, all))
                # the copy comes in one piece: a log of its own would be left out of the backup
                target.execute("PRAGMA journal_mode = DELETE")
            finally:
                target.close()
        finally:
            origin.close()
        _verify(source, copy)
    except sqlite3.Error as error:
        raise BackupError(f"{source}: {one_line(error)}") from error
    return schema


def _verify(file: Path, database: Path) -> None:
    """That the database is sound and this version can read it."""
    connection = sqlite3.connect(database, isolation_level=None)
    try:
        schema, min_reader = versions(connection)
        if min_reader > SCHEMA:
            raise BackupError(
                f"{file}: written by a newer version (schema {schema}, readable from schema {min_reader} on;"
                f" this version knows {SCHEMA})"
            )
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.Error as error:
        raise BackupError(f"{file}: {one_line(error)}") from error
    finally:
        connection.close()
    if verdict != "ok":
        raise BackupError(f"{file}: the database in it is damaged: {' '.join(str(verdict).split())}")


def _write(part: Path, manifest: Manifest, sources: Mapping[str, Path]) -> None:
    text = json.dumps(
        {**manifest._asdict(), "format": _FORMAT, "members": {n: m._asdict() for n, m in manifest.members.items()}},
        indent=1,
    ).encode()
    with _private(part) as out:
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
            tar.addfile(_entry(_MANIFEST, len(text)), BytesIO(text))
            for name, path in sources.items():
                with path.open("rb") as content:
                    tar.addfile(_entry(name, manifest.members[name].bytes), content)
        out.flush()
        os.fsync(out.fileno())


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o600
    return entry


@contextmanager
def _opened(file: Path) -> Iterator[tuple[tarfile.TarFile, Manifest]]:
    try:
        with tarfile.open(file, "r:") as tar:
            yield tar, _manifest(file, tar)
    except FileNotFoundError as error:
        raise BackupError(f"{file}: no such file") from error
    except tarfile.TarError as error:
        raise BackupError(f"{file}: no backup, or cut short: {one_line(error)}") from error


def _manifest(file: Path, tar: tarfile.TarFile) -> Manifest:
    first = tar.next()
    if first is None or first.name != _MANIFEST or not 0 < first.size <= _MANIFEST_BYTES_MAX:
        raise BackupError(f"{file}: no backup: it does not begin with a manifest")
    content = tar.extractfile(first)
    assert content is not None
    try:
        found: dict[str, Any] = json.loads(content.read())
        if found["format"] != _FORMAT:
            raise BackupError(f"{file}: a backup of a newer kind ({found['format']}; this version knows {_FORMAT})")
        members = {
            str(name): Member(int(m["bytes"]), str(m["sha256"]), str(m["path"])) for name, m in found["members"].items()
        }
        manifest = Manifest(str(found["forebay"]), str(found["taken"]), int(found["schema"]), members)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BackupError(f"{file}: no backup: its manifest cannot be read") from error
    if DATABASE not in members:
        raise BackupError(f"{file}: no backup: it has no database")
    return manifest


def _chunks(file: Path, tar: tarfile.TarFile, name: str, member: Member) -> Iterator[bytes]:
    """The content of a file in it; BackupError at the end when it is not what the manifest says."""
    try:
        content = tar.extractfile(name)
    except KeyError:
        content = None
    if content is None:
        raise BackupError(f"{file}: cut short: {name} is missing")
    total, hashed = 0, hashlib.sha256()
    while chunk := content.read(_CHUNK_BYTES):
        total += len(chunk)
        hashed.update(chunk)
        yield chunk
    if total != member.bytes or hashed.hexdigest() != member.sha256:
        raise BackupError(f"{file}: damaged: {name} is not what was backed up")


def _hash(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _private(path: Path) -> IO[bytes]:
    """A new file that only its owner can read."""
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb")


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def removed(*paths: Path) -> Iterator[None]:
    """These are gone afterwards, whatever happens."""
    try:
        yield
    finally:
        for path in paths:
            path.unlink(missing_ok=True)

"""Writing an image to a disk or into a file, and proving that it is there."""

import contextlib
import errno
import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from gateway.appliance.blocks import Bmap, Extent
from gateway.appliance.disks import device_bytes
from gateway.appliance.unpack import ImageError, Unpacked
from gateway.figures import size

CHUNK_BYTES: Final = 4 << 20
# What a boot begins with is written last: a disk whose writing was cut short boots nothing, rather than half of it.
HEAD_BYTES: Final = 1 << 20
_SYNC_BYTES: Final = 32 << 20  # in the page cache at most twice: the rate that is shown is that of the disk
_BLKFLSBUF: Final = 0x1261

Progress = Callable[[str, int, int], None]
"""Gets what is done ("write" or "verify"), how many bytes of it, and of how many (0: not known)."""


class FlashError(Exception):
    """An image that is not, or not all, on its target; one line for people."""


@dataclass(frozen=True)
class Flashed:
    """What was done: bytes of the image, bytes written and read back, seconds of both."""

    image_bytes: int
    written_bytes: int
    write_s: float
    verify_s: float


@final
class _Target:
    """The disk or file that is written, and what must be found there afterwards."""

    def __init__(self, path: Path, is_disk: bool) -> None:
        """Raises FlashError; a mounted disk is one, since the kernel gives it to nobody else."""
        self.path, self.is_disk = path, is_disk
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_EXCL if is_disk else os.O_CREAT | os.O_TRUNC)
        try:
            self.descriptor = os.open(path, flags, 0o644)
        except OSError as error:
            reason = "in use: mounted, or part of something that is" if error.errno == errno.EBUSY else error.strerror
            raise FlashError(f"{path}: {reason}") from None
        self.room = device_bytes(self.descriptor) if is_disk else None
        self.written: list[tuple[int, bytes, int]] = []  # offset, digest, bytes
        self._unsynced = 0
        self._syncing: Future[None] | None = None
        self._pool = ThreadPoolExecutor(1)

    def close(self) -> None:
        self._pool.shutdown()
        os.close(self.descriptor)

    def put(self, offset: int, data: bytes, digest: bytes) -> None:
        """Write it, and remember that it must be there."""
        self.written.append((offset, digest, len(data)))
        self.write(offset, data)
        self._unsynced += len(data)
        if self._unsynced >= _SYNC_BYTES:
            self._unsynced = 0
            if self._syncing is not None:
                self._syncing.result()
            self._syncing = self._pool.submit(os.fdatasync, self.descriptor)

    def write(self, offset: int, data: bytes) -> None:
        """Raises FlashError when there is no more room, OSError for what the disk says."""
        if self.room is not None and offset + len(data) > self.room:
            raise FlashError(f"{self.path}: too small, {size(self.room)}: the image does not end there")
        rest = memoryview(data)
        while rest:
            done = os.pwrite(self.descriptor, rest, offset)
            offset += done
            rest = rest[done:]

    def wipe(self) -> None:
        """Take away what a boot begins with, at both ends of a disk."""
        count = HEAD_BYTES if self.room is None else min(HEAD_BYTES, self.room)
        self.write(0, bytes(count))
        if self.room is not None:
            self.write(self.room - count, bytes(count))
        os.fsync(self.descriptor)

    def sync(self) -> None:
        """All of it on the disk."""
        if self._syncing is not None:
            self._syncing.result()
        os.fsync(self.descriptor)

    def forget(self) -> None:
        """Out of the kernel's cache, so that the next read comes from the disk."""
        if self.is_disk:
            fcntl.ioctl(self.descriptor, _BLKFLSBUF, 0)
        os.posix_fadvise(self.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def flash(source: Unpacked, bmap: Bmap | None, target: Path, is_disk: bool, progress: Progress) -> Flashed:
    """Write the image, or what the block map says matters of it, and read all that was written back.

    Raises FlashError or ImageError; the target boots nothing then.
    """
    with contextlib.closing(_Target(target, is_disk)) as disk:
        started = time.monotonic()
        try:
            disk.wipe()
            image_bytes = _write(source, bmap, disk, progress)
            wrote = time.monotonic()
            disk.forget()
            bad = _verify(disk, progress)
            if bad:
                disk.wipe()
                raise FlashError(bad)
        except OSError as error:
            raise FlashError(f"{target}: {error.strerror}; what is on it now cannot be used") from None
        count = sum(length for _, _, length in disk.written)
        return Flashed(image_bytes, count, wrote - started, time.monotonic() - wrote)


def _write(source: Unpacked, bmap: Bmap | None, disk: _Target, progress: Progress) -> int:
    """The size of the image."""
    head: list[tuple[int, bytes, bytes]] = []
    done = end = 0
    total = bmap.mapped_bytes if bmap is not None else source.image_bytes or 0
    progress("write", 0, total)
    with ThreadPoolExecutor(1) as reader:
        chunks = _mapped(source, bmap) if bmap is not None else _all(source)
        coming = reader.submit(next, chunks, None)
        while (chunk := coming.result()) is not None:
            coming = reader.submit(next, chunks, None)  # read, unpacked and summed while this one is written
            offset, data, digest = chunk
            if offset < HEAD_BYTES:
                head.append(chunk)
            else:
                disk.put(offset, data, digest)
            done, end = done + len(data), offset + len(data)
            progress("write", done, total or max(done, _guess(source, done)))
    image_bytes = bmap.image_bytes if bmap is not None else end
    if not disk.is_disk:
        os.ftruncate(disk.descriptor, image_bytes)
    disk.sync()
    for offset, data, digest in head:
        disk.put(offset, data, digest)
    disk.sync()
    return image_bytes


def _guess(source: Unpacked, done: int) -> int:
    """How large the image will have been, from how much of the packed file it took so far."""
    position = source.position()
    return done * source.packed_bytes // position if position else 0


def _all(source: Unpacked) -> Iterator[tuple[int, bytes, bytes]]:
    """(offset, bytes, digest) up to the end; the first chunk is the head."""
    offset, want = 0, HEAD_BYTES
    while data := source.read(want):
        yield offset, data, hashlib.sha256(data).digest()
        offset += len(data)
        want = CHUNK_BYTES
    if source.image_bytes is not None and offset != source.image_bytes:
        raise ImageError(f"{source.path}: ends after {offset} bytes, expected {source.image_bytes}")


def _mapped(source: Unpacked, bmap: Bmap) -> Iterator[tuple[int, bytes, bytes]]:
    """(offset, bytes, digest) of what the block map has; what an extent was when the map was made, it must still be."""
    offset = 0
    for extent in bmap.extents:
        while offset < extent.start:
            offset += len(_some(source, min(CHUNK_BYTES, extent.start - offset), offset, bmap))
        total = hashlib.new(bmap.hash)
        while offset < extent.end:
            want = min(CHUNK_BYTES if offset >= HEAD_BYTES else HEAD_BYTES - offset, extent.end - offset)
            data = _some(source, want, offset, bmap)
            total.update(data)
            yield offset, data, hashlib.sha256(data).digest()
            offset += len(data)
        _compare(source.path, extent, total.hexdigest())


def _some(source: Unpacked, want: int, offset: int, bmap: Bmap) -> bytes:
    """All of it. Raises ImageError."""
    data = source.read(want)
    if len(data) < want:
        raise ImageError(f"{source.path}: ends after {offset + len(data)} bytes, its block map has {bmap.image_bytes}")
    return data


def _compare(path: Path, extent: Extent, found: str) -> None:
    if extent.checksum and found != extent.checksum:
        raise ImageError(
            f"{path}: damaged, or its block map is of another image: bytes {extent.start} to {extent.end}"
            f" have the checksum {found[:16]}, expected {extent.checksum[:16]}"
        )


def _verify(disk: _Target, progress: Progress) -> str:
    """What is wrong with the first chunk that is not what was written, or nothing."""
    total, done = sum(length for _, _, length in disk.written), 0
    progress("verify", 0, total)
    for offset, digest, length in disk.written:
        data = b""
        while len(data) < length and (part := os.pread(disk.descriptor, length - len(data), offset + len(data))):
            data += part
        if hashlib.sha256(data).digest() != digest:
            return (
                f"{disk.path}: bytes {offset} to {offset + length} were not read back as they were written:"
                " the disk or its reader is bad, or not as large as it says"
            )
        done += length
        progress("verify", done, total)
    return ""


def require_room(target: Path, count: int) -> None:
    """Raise FlashError when the folder of a file has no room for so many bytes."""
    try:
        there = os.statvfs(target.absolute().parent)
        room = there.f_bavail * there.f_frsize + (target.stat().st_blocks * 512 if target.exists() else 0)
    except OSError as error:
        raise FlashError(f"{target}: {error.strerror}") from None
    if room < count:
        raise FlashError(f"{target}: too small, {size(room)} left for {size(count)}")

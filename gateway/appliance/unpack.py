"""The bytes of an image file, unpacked while they are read: plain, .zst, .xz and .gz."""

import gzip
import lzma
import os
import shutil
import subprocess
import zlib
from pathlib import Path
from typing import IO, Final, Self, cast, final

_MAGICS: Final = ((b"\x28\xb5\x2f\xfd", "zst"), (b"\xfd7zXZ\x00", "xz"), (b"\x1f\x8b", "gz"))
_HEAD_BYTES: Final = 18


class ImageError(Exception):
    """An image that cannot be read; one line for people."""


@final
class Unpacked:
    """An image as a stream; what it is packed with is seen from its first bytes, not from its name.

    ``image_bytes`` is its size unpacked, None where only its end will tell (.xz, .gz, a pipe); ``packed_bytes`` that of
    the file, 0 for a pipe.
    """

    def __init__(self, path: Path) -> None:
        """Raises ImageError."""
        self.path = path
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._raw = path.open("rb")
            self.packed_bytes = path.stat().st_size if path.is_file() else 0
            head = self._raw.peek(_HEAD_BYTES)[:_HEAD_BYTES]
        except OSError as error:
            raise ImageError(f"{path}: {error.strerror}") from None
        packing = next((name for magic, name in _MAGICS if head.startswith(magic)), "")
        self.image_bytes: int | None = None
        self._source: IO[bytes] = self._raw
        if packing == "xz":
            self._source = lzma.open(self._raw)
        elif packing == "gz":
            self._source = cast(IO[bytes], gzip.open(self._raw))
        elif packing == "zst":
            self.image_bytes = zstd_content_bytes(head)
            self._source = self._zstd()
        else:
            self.image_bytes = self.packed_bytes or None
            if not head:
                raise self._refusal("empty, expected an image")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            assert self._process.stdout is not None and self._process.stderr is not None
            self._process.kill()
            self._process.stdout.close()
            self._process.stderr.close()
            self._process.wait()
        self._raw.close()

    def read(self, count: int) -> bytes:
        """The next ``count`` bytes, fewer only at the end. Raises ImageError when the file is damaged or cut short."""
        parts: list[bytes] = []
        try:
            while count and (part := self._source.read(count)):
                parts.append(part)
                count -= len(part)
        except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
            raise ImageError(f"{self.path}: damaged or cut short: {error}") from None
        except OSError as error:
            raise ImageError(f"{self.path}: {error.strerror}") from None
        if count and self._process is not None:
            self._end(self._process)
        return b"".join(parts)

    def position(self) -> int:
        """How much of the packed file was read, in bytes; for a progress bar."""
        try:
            return os.lseek(self._raw.fileno(), 0, os.SEEK_CUR)
        except OSError:
            return 0

    def _zstd(self) -> IO[bytes]:
        """A process of its own: it unpacks while this one writes, and Python before 3.14 has nothing for it."""
        program = shutil.which("zstd")
        if program is None:
            raise self._refusal("packed with zstd, which is not installed: apt-get install zstd")
        if not self.packed_bytes:
            raise self._refusal("zstd through a pipe, expected a file")
        os.lseek(self._raw.fileno(), 0, os.SEEK_SET)
        self._process = subprocess.Popen(
            [program, "-dcq", "--no-progress"], stdin=self._raw, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self._process.stdout is not None
        return self._process.stdout

    def _refusal(self, reason: str) -> ImageError:
        self._raw.close()
        return ImageError(f"{self.path}: {reason}")

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stderr is not None
        said = process.stderr.read().decode(errors="replace").strip()
        if process.wait():
            raise ImageError(f"{self.path}: damaged or cut short: {said.splitlines()[-1] if said else 'zstd failed'}")


def zstd_content_bytes(head: bytes) -> int | None:
    """The unpacked size that a zstd frame's header names, None where it does not (RFC 8878, 3.1.1.1)."""
    if len(head) < _HEAD_BYTES:
        return None
    flag, is_single = head[4] >> 6, bool(head[4] & 0x20)
    length = (1 if is_single else 0, 2, 4, 8)[flag]
    at = 5 + (0 if is_single else 1) + (0, 1, 2, 4)[head[4] & 3]
    if not length:
        return None
    return int.from_bytes(head[at : at + length], "little") + (256 if flag == 1 else 0)

import gzip
import lzma
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from gateway.appliance.unpack import ImageError, Unpacked, zstd_content_bytes

DATA = os.urandom(100_000) + bytes(200_000)
zstd_here = pytest.mark.skipif(shutil.which("zstd") is None, reason="zstd is not installed")


def packed(folder: Path, packing: str, data: bytes = DATA) -> Path:
    plain = folder / "image"
    plain.write_bytes(data)
    if packing == "plain":
        return plain
    target = folder / f"image.{packing}"
    if packing == "xz":
        target.write_bytes(lzma.compress(data))
    elif packing == "gz":
        target.write_bytes(gzip.compress(data))
    else:
        subprocess.run(["zstd", "-q", "-f", plain, "-o", target], check=True)
    return target


PACKINGS = ["plain", "xz", "gz", pytest.param("zst", marks=zstd_here)]


@pytest.mark.parametrize("packing", PACKINGS)
def test_comes_out_as_it_went_in(tmp_path: Path, packing: str) -> None:
    path = packed(tmp_path, packing)
    with Unpacked(path) as source:
        assert source.image_bytes == (len(DATA) if packing in ("plain", "zst") else None)
        assert source.packed_bytes == path.stat().st_size
        found = b""
        while part := source.read(70_001):
            assert len(part) == 70_001 or len(found) + len(part) == len(DATA)
            found += part
        assert source.position() == path.stat().st_size
    assert found == DATA


@pytest.mark.parametrize("packing", PACKINGS[1:])
@pytest.mark.parametrize("fault", ["cut", "changed"])
def test_a_damaged_one_is_refused(tmp_path: Path, packing: str, fault: str) -> None:
    path = packed(tmp_path, packing)
    data = bytearray(path.read_bytes())
    if fault == "cut":
        del data[len(data) // 2 :]
    else:
        data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with Unpacked(path) as source, pytest.raises(ImageError, match="damaged or cut short") as refused:
        source.read(len(DATA) + 1)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_none_at_all(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="No such file"):
        Unpacked(tmp_path / "none")
    (tmp_path / "empty").touch()
    with pytest.raises(ImageError, match="empty"):
        Unpacked(tmp_path / "empty")


def test_through_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(gzip.compress(DATA),))
    writer.start()
    with Unpacked(pipe) as source:
        assert (source.image_bytes, source.packed_bytes) == (None, 0)
        assert source.read(len(DATA) + 1) == DATA
    writer.join()


@zstd_here
@pytest.mark.parametrize("count", [100, 300, 70_000, 300_000])
def test_the_size_in_the_header_of_zstd(tmp_path: Path, count: int) -> None:
    path = packed(tmp_path, "zst", os.urandom(count))
    assert zstd_content_bytes(path.read_bytes()[:18]) == count
    streamed = subprocess.run(["zstd", "-qc"], input=os.urandom(count), capture_output=True, check=True).stdout
    assert zstd_content_bytes(streamed[:18]) is None
    assert zstd_content_bytes(streamed[:17]) is None

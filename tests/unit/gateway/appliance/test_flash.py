import gzip
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.appliance import flash as flashing
from gateway.appliance.blocks import Bmap, write_bmap
from gateway.appliance.flash import CHUNK_BYTES, HEAD_BYTES, Flashed, FlashError, Progress, require_room
from gateway.appliance.unpack import ImageError, Unpacked
from tests.loops import loop_device

MIB = 1 << 20


def flash(image: Path, bmap: Bmap | None, target: Path, is_disk: bool, progress: Progress) -> Flashed:
    with Unpacked(image) as source:
        return flashing.flash(source, bmap, target, is_disk, progress)


def quiet(phase: str, done: int, total: int) -> None:
    pass


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """10 MiB and a bit, with 4 MiB of zeros in the middle."""
    file = tmp_path / "image"
    file.write_bytes(os.urandom(3 * MIB) + bytes(4 * MIB) + os.urandom(3 * MIB) + b"end")
    return file


@pytest.fixture
def bmap(image: Path) -> Bmap:
    return write_bmap(image, image.with_name("image.bmap"), [(3 * MIB, 4 * MIB)])


def test_into_a_file(image: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"longer" * 3 * MIB)
    steps: list[tuple[str, int, int]] = []
    done = flash(image, None, target, False, lambda *step: steps.append(step))
    assert target.read_bytes() == image.read_bytes()
    assert done.image_bytes == done.written_bytes == 10 * MIB + 3
    for phase in ("write", "verify"):
        mine = [step for step in steps if step[0] == phase]
        assert mine[0][1] == 0
        assert mine[-1] == (phase, 10 * MIB + 3, 10 * MIB + 3)
        assert [step[1] for step in mine] == sorted(step[1] for step in mine)


@pytest.mark.parametrize("count", [1, HEAD_BYTES, HEAD_BYTES + 1, HEAD_BYTES + CHUNK_BYTES])
def test_sizes_at_the_edges(tmp_path: Path, count: int) -> None:
    (tmp_path / "image").write_bytes(os.urandom(count))
    flash(tmp_path / "image", None, tmp_path / "target", False, quiet)
    assert (tmp_path / "target").read_bytes() == (tmp_path / "image").read_bytes()


def test_only_what_the_map_has_is_written(image: Path, bmap: Bmap, tmp_path: Path) -> None:
    target = tmp_path / "target"
    done = flash(image, bmap, target, False, quiet)
    assert target.read_bytes() == image.read_bytes()
    assert (done.image_bytes, done.written_bytes) == (10 * MIB + 3, 6 * MIB + 3)
    assert target.stat().st_blocks * 512 < 7 * MIB


def test_packed_with_its_map(image: Path, bmap: Bmap, tmp_path: Path) -> None:
    packed = tmp_path / "image.gz"
    packed.write_bytes(gzip.compress(image.read_bytes()))
    steps: list[tuple[str, int, int]] = []
    flash(packed, bmap, tmp_path / "one", False, lambda *step: steps.append(step))
    flash(packed, None, tmp_path / "two", False, quiet)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes() == image.read_bytes()
    assert steps[0] == ("write", 0, 6 * MIB + 3)


def test_a_disk(image: Path, bmap: Bmap, tmp_path: Path) -> None:
    backing = tmp_path / "disk"
    old = os.urandom(16 * MIB)
    backing.write_bytes(old)
    with loop_device(backing) as device:
        flash(image, bmap, device, True, quiet)
    found, wanted = backing.read_bytes(), image.read_bytes()
    assert found[: 3 * MIB] == wanted[: 3 * MIB]
    assert found[3 * MIB : 7 * MIB] == old[3 * MIB : 7 * MIB]  # left as it was
    assert found[7 * MIB : 10 * MIB + 3] == wanted[7 * MIB :]
    assert found[10 * MIB + 3 : 15 * MIB] == old[10 * MIB + 3 : 15 * MIB]
    assert found[15 * MIB :] == bytes(MIB)  # where the table of the partitions before has its copy


def test_a_disk_that_somebody_holds(image: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").write_bytes(bytes(16 * MIB))
    with loop_device(tmp_path / "disk") as device:
        holder = os.open(device, os.O_RDWR | os.O_EXCL)
        try:
            with pytest.raises(FlashError, match="in use"):
                flash(image, None, device, True, quiet)
        finally:
            os.close(holder)
    assert (tmp_path / "disk").read_bytes() == bytes(16 * MIB)


def test_a_disk_that_turns_out_too_small(image: Path, tmp_path: Path) -> None:
    """A packed image says how large it is at its end only."""
    packed = tmp_path / "image.gz"
    packed.write_bytes(gzip.compress(image.read_bytes()))
    (tmp_path / "disk").write_bytes(os.urandom(8 * MIB))
    with loop_device(tmp_path / "disk") as device, pytest.raises(FlashError, match=r"too small, 8\.0 MiB"):
        flash(packed, None, device, True, quiet)
    assert (tmp_path / "disk").read_bytes()[:HEAD_BYTES] == bytes(HEAD_BYTES)


def at(phase: str, when: Callable[[int], bool], act: Callable[[], object]) -> Callable[[str, int, int], None]:
    """Does something once, at a moment of the way."""
    pending = [act]

    def progress(now: str, done: int, total: int) -> None:
        if pending and now == phase and when(done):
            pending.pop()()

    return progress


def test_cut_in_the_middle_nothing_boots(image: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        flash(image, None, target, False, at("write", lambda done: done > 5 * MIB, stop))
    assert target.read_bytes()[:HEAD_BYTES] == bytes(HEAD_BYTES)
    assert target.read_bytes()[HEAD_BYTES : 3 * MIB] == image.read_bytes()[HEAD_BYTES : 3 * MIB]


@pytest.mark.parametrize("offset", [0, 5 * MIB, 10 * MIB + 2])
def test_a_byte_that_is_read_back_otherwise(image: Path, tmp_path: Path, offset: int) -> None:
    target = tmp_path / "target"

    def flip() -> None:
        with target.open("r+b") as file:
            file.seek(offset)
            byte = file.read(1)
            file.seek(offset)
            file.write(bytes([byte[0] ^ 0x10]))

    with pytest.raises(FlashError, match="not read back as they were written") as failed:
        flash(image, None, target, False, at("verify", lambda done: not done, flip))
    first, last = (int(word) for word in str(failed.value).split() if word.isdigit())
    assert first <= offset < last
    assert target.read_bytes()[:HEAD_BYTES] == bytes(HEAD_BYTES)


def test_a_byte_that_the_map_leaves_out_does_not_count(image: Path, bmap: Bmap, tmp_path: Path) -> None:
    target = tmp_path / "target"

    def flip() -> None:
        with target.open("r+b") as file:
            file.seek(5 * MIB)
            file.write(b"x")

    flash(image, bmap, target, False, at("verify", lambda done: not done, flip))


def test_an_image_that_is_not_that_of_the_map(image: Path, bmap: Bmap, tmp_path: Path) -> None:
    data = bytearray(image.read_bytes())
    data[8 * MIB] ^= 1
    image.write_bytes(data)
    with pytest.raises(ImageError, match=f"{image}: damaged, or its block map is of another image"):
        flash(image, bmap, tmp_path / "target", False, quiet)
    assert (tmp_path / "target").read_bytes()[:HEAD_BYTES] == bytes(HEAD_BYTES)
    with pytest.raises(ImageError, match="ends after"):
        flash(image, replace(bmap, image_bytes=bmap.image_bytes + 9, extents=[replace(bmap.extents[0], end=11 * MIB)]),
              tmp_path / "target", False, quiet)  # fmt: skip


def test_room_for_a_file(tmp_path: Path) -> None:
    require_room(tmp_path / "target", 1)
    with pytest.raises(FlashError, match="too small"):
        require_room(tmp_path / "target", 1 << 60)
    with pytest.raises(FlashError, match="No such file"):
        require_room(tmp_path / "none" / "target", 1)

"""``forebay image flash``, the real command against files, loop devices and what lsblk would say of other disks."""

import gzip
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from gateway.appliance.blocks import write_bmap
from gateway.appliance.flash import HEAD_BYTES
from tests.command import Forebay
from tests.loops import loop_device, mounted
from tests.unit.gateway.appliance.test_disks import part, row

MIB = 1 << 20


@pytest.fixture
def image(tmp_path: Path) -> Path:
    file = tmp_path / "image"
    file.write_bytes(os.urandom(3 * MIB) + bytes(2 * MIB))
    return file


def lsblk_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *rows: dict[str, Any]) -> None:
    """From now on, whatever it is asked."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "rows").write_text(json.dumps({"blockdevices": rows}))
    (folder / "lsblk").write_text(f"#!/bin/sh\ncat {folder}/rows\n")
    (folder / "lsblk").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def node(tmp_path: Path) -> Path:
    """A block device that nobody can open, since no driver has it."""
    path = tmp_path / "sdq"
    try:
        os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(240, 7))
    except PermissionError:
        pytest.skip("device nodes need root")
    return path


def test_into_a_file(forebay: Forebay, image: Path) -> None:
    code, out, err = forebay("image", "flash", "image", "new")
    assert code == 0, err
    assert out.startswith("new: 5.0 MiB written in ")
    assert out.count("\n") == 1
    assert Path("new").read_bytes() == image.read_bytes()


def test_a_file_that_is_there_is_asked_for_by_name(forebay: Forebay, image: Path) -> None:
    Path("there").write_bytes(b"precious")
    code, _, err = forebay("image", "flash", "image", "there", stdin=b"their\n")
    assert code == 1 and "nothing was written" in err
    assert Path("there").read_bytes() == b"precious"
    code, _, err = forebay("image", "flash", "image", "there")
    assert code == 1 and Path("there").read_bytes() == b"precious"
    assert forebay("image", "flash", "image", "there", stdin=b"there\n").code == 0
    assert Path("there").read_bytes() == image.read_bytes()


def test_a_loop_device_as_json(forebay: Forebay, image: Path, tmp_path: Path) -> None:
    write_bmap(image, tmp_path / "image.bmap", [(3 * MIB, 2 * MIB)])
    (tmp_path / "image.gz").write_bytes(gzip.compress(image.read_bytes()))
    (tmp_path / "disk").write_bytes(bytes(8 * MIB))
    with loop_device(tmp_path / "disk") as device:
        code, _, err = forebay("image", "flash", "image.gz", str(device), stdin=f"{device.name}\n".encode())
        assert code == 1 and "a fixed disk" in err and f"--force {device.name}" in err
        code, _, err = forebay("image", "flash", "image.gz", str(device), "--force", "sda")
        assert code == 2 and f"expected {device.name}" in err
        code, out, err = forebay("image", "flash", "image.gz", str(device), "--force", device.name, "--json")
        assert code == 0, err
        told = json.loads(out)
        assert told["disk"]["bytes"] == 8 * MIB
        assert (told["image_bytes"], told["written_bytes"], told["verified"]) == (5 * MIB, 3 * MIB, True)
    assert (tmp_path / "disk").read_bytes()[: 5 * MIB] == image.read_bytes()


def test_a_disk_that_is_too_small(forebay: Forebay, image: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").write_bytes(b"\x55" * (4 * MIB))
    with loop_device(tmp_path / "disk") as device:
        code, _, err = forebay("image", "flash", "image", str(device), "--force", device.name)
    assert code == 1 and err == f"forebay: {device}: too small, 4.0 MiB for an image of 5.0 MiB\n"
    assert (tmp_path / "disk").read_bytes() == b"\x55" * (4 * MIB)


def test_a_mounted_disk(forebay: Forebay, image: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").write_bytes(bytes(16 * MIB))
    with loop_device(tmp_path / "disk") as device, mounted(device, tmp_path / "there"):
        code, _, err = forebay("image", "flash", "image", str(device))
        assert code == 1 and f"in use, mounted at {tmp_path}/there" in err and err.count("\n") == 1
        (tmp_path / "there" / "file").touch()
        code, _, err = forebay("image", "flash", "image", str(device), "--force", device.name)
        assert code == 0, err
        assert not (tmp_path / "there" / "file").exists()
    assert (tmp_path / "disk").read_bytes()[: 5 * MIB] == image.read_bytes()


def test_the_disk_of_the_system(forebay: Forebay, image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = node(tmp_path)
    system = row("sdq", path=str(target), children=[part("sdq1", "sdq", mountpoints=["/"])])
    lsblk_says(monkeypatch, tmp_path, system)
    for force in ((), ("--force", "sdq")):
        code, _, err = forebay("image", "flash", "image", str(target), *force, stdin=b"sdq\n")
        assert code == 1 and err.startswith(f"forebay: {target}: this system runs from it")


def test_a_removable_disk_is_shown_and_asked_for_by_name(
    forebay: Forebay, image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = node(tmp_path)
    lsblk_says(monkeypatch, tmp_path, row("sdq", path=str(target)))
    code, _, err = forebay("image", "flash", "image", str(target), stdin=b"y\n")
    assert code == 1 and 'nothing was written, since "y" was typed and not sdq' in err
    assert "Generic STORAGE DEVICE, 8.0 GiB, 000000001206" in err
    code, _, err = forebay("image", "flash", "image", str(target), stdin=b"sdq\n")
    assert code == 1 and "No such device or address" in err  # named, so it was opened
    code, _, err = forebay("image", "flash", "image")
    assert code == 2 and f"{target} (Generic STORAGE DEVICE, 8.0 GiB, 000000001206)" in err


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_cut_in_the_middle(tmp_path: Path, end: signal.Signals) -> None:
    """What was written by then must boot nothing; the image comes through a pipe, so that its middle lasts."""
    pipe, target, data = tmp_path / "pipe", tmp_path / "target", os.urandom(24 * MIB)
    os.mkfifo(pipe)
    let_go = threading.Event()

    def feed() -> None:
        with pipe.open("wb", buffering=0) as out:
            out.write(data[: 16 * MIB])
            let_go.wait()

    feeder = threading.Thread(target=feed)
    feeder.start()
    flashing = subprocess.Popen(
        [sys.executable, "-m", "gateway", "image", "flash", str(pipe), str(target)], stderr=subprocess.PIPE
    )
    while not target.exists() or target.stat().st_size < 8 * MIB:
        assert flashing.poll() is None
        let_go.wait(0.01)
    flashing.send_signal(end)
    let_go.set()  # a read that waits ends with the pipe
    feeder.join()
    _, err = flashing.communicate()
    if end is signal.SIGINT:
        assert flashing.returncode == 1
        assert b"flash it again" in err and b"Traceback" not in err
    assert target.read_bytes()[:HEAD_BYTES] == bytes(HEAD_BYTES)


def test_a_disk_onto_itself(forebay: Forebay, image: Path, tmp_path: Path) -> None:
    with loop_device(image) as device:
        found = forebay("image", "flash", str(device), str(device), "--force", device.name)
    assert found == (1, "", f"forebay: {device}: the image itself is on it\n")


def test_bad_input_is_one_line(forebay: Forebay, image: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(image)
    before = image.read_bytes()
    for arguments, code, said in (
        (("none", "new"), 1, "none: No such file"),
        (("image", "/dev/null"), 1, "neither a disk nor a file"),
        (("image", "new", "--bmap", "image"), 2, "image: no block map"),
        (("image", "none/new"), 1, "none/new: No such file"),
        (("image", "image", "--force", "image"), 1, "image: the image itself"),
        (("link", "image", "--force", "image"), 1, "image: the image itself"),
    ):
        found = forebay("image", "flash", *arguments)
        assert (found.code, said in found.err, found.err.count("\n")) == (code, True, 1), found.err
    assert not (tmp_path / "new").exists()
    assert image.read_bytes() == before

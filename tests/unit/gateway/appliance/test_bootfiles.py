import os
from pathlib import Path

import pytest

from gateway.appliance.bootfiles import put_file, put_folder, remove, rename, require_kernel
from tests.machine_root import kernel


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "file"
    put_file(file, "one")
    put_file(file, "two")
    assert file.read_text() == "two"
    rename(file, "other")
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
    remove(tmp_path / "other")
    remove(tmp_path / "other")
    assert not list(tmp_path.iterdir())


def test_a_folder_takes_the_place_of_another(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "b"
    (source / "overlays").mkdir(parents=True)
    (source / "vmlinuz").write_bytes(b"kernel")
    (source / "overlays" / "one.dtbo").write_bytes(b"tree")
    target.mkdir()
    (target / "old").touch()
    (tmp_path / "b.new").mkdir()
    (tmp_path / "b.new" / "half").touch()  # the power went
    (source / "cmdline.txt").write_text("forebay.slot=@ quiet")
    put_folder(source, target, "b")
    assert sorted(str(path.relative_to(target)) for path in target.rglob("*")) == [
        "cmdline.txt",
        "overlays",
        "overlays/one.dtbo",
        "vmlinuz",
    ]
    assert (target / "cmdline.txt").read_text() == "forebay.slot=b quiet"
    assert (target / "vmlinuz").read_bytes() == b"kernel"
    assert not (tmp_path / "b.new").exists()


def test_without_a_source_nothing_points_to_half_of_it(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="none"):
        put_folder(tmp_path / "none", tmp_path / "b", "b")
    assert not (tmp_path / "b").exists()


def test_a_kernel_is_known_by_its_head(tmp_path: Path) -> None:
    file = tmp_path / "vmlinuz"
    machine = os.uname().machine
    file.write_bytes(kernel(""))
    require_kernel(file, machine)
    other = {"x86_64": "aarch64", "aarch64": "x86_64"}[machine]
    for head, asked in (
        (kernel(""), other), (kernel(""), "riscv64"), (b"", machine), (b"MZ", machine),
        (b"MZ" + b"\xff" * 100, machine), (b"\x1f\x8b" + kernel("")[2:], machine),
    ):  # fmt: skip
        file.write_bytes(head)
        with pytest.raises(OSError, match=f"vmlinuz: no kernel for {asked}"):
            require_kernel(file, asked)

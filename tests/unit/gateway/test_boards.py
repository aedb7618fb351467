"""Board profiles: ours are valid and make sense, and each is found by what its machine says."""

import tomllib
from pathlib import Path

import jsonschema
import pytest

from gateway.boards import ARCHITECTURES, BOARDS, CLASSES, board, detect, names, schema
from gateway.schema import check

OURS = {
    "beaglebone", "cm4", "iot2050", "pi-3", "pi-4", "pi-5", "pi-zero-2w", "revpi-connect-4", "x86", "x86-cf",
}  # fmt: skip
FILES = sorted(BOARDS.glob("*.toml"))


def test_every_board_has_a_profile() -> None:
    assert set(names()) == OURS


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_ours_are_valid(path: Path) -> None:
    values = tomllib.loads(path.read_text(encoding="utf-8"))
    assert [str(fault) for fault in check(values, schema())] == []
    jsonschema.Draft202012Validator(schema()).validate(values)
    assert values["name"] == path.stem


@pytest.mark.parametrize("name", sorted(OURS))
def test_figures_make_sense(name: str) -> None:
    one = board(name)
    assert 1 << 28 < one.ram_bytes < 1 << 36
    assert one.endurance_bytes > 100 * one.disk_bytes
    assert 1 <= one.commit_ms <= 50
    assert 1 <= one.amplification <= 10
    assert one.storage in CLASSES
    assert one.arch in ARCHITECTURES.values()
    assert one.source
    assert one.commit_interval_ms <= 250, "publishers wait for it"


@pytest.mark.parametrize("name", sorted(OURS))
def test_an_image_has_what_its_boot_needs(name: str) -> None:
    one = board(name)
    if one.image is not None:
        assert one.image.partition_table == {"systemd-boot": "gpt", "config.txt": "mbr"}[one.image.boot_backend]
        assert bool(one.image.dtb) == (one.image.boot_backend == "config.txt")
        assert one.arch == {"x86-64": "amd64", "rpi": "arm64", "arm64": "arm64"}[one.image.name]


def test_boards_are_told_apart() -> None:
    said = [text for name in OURS for text in board(name).compatible]
    assert len(said) == len(set(said))
    assert all(board(name).compatible or board(name).storage_classes for name in OURS)


@pytest.mark.parametrize(
    ("compatible", "machine", "storage", "found"),
    [
        (["raspberrypi,4-model-b", "brcm,bcm2711"], "aarch64", "sd", "pi-4"),
        (["raspberrypi,4-model-b", "brcm,bcm2711"], "armv7l", "ssd", "pi-4"),
        (["raspberrypi,4-compute-module", "brcm,bcm2711"], "aarch64", "emmc", "cm4"),
        (["kunbus,revpi-connect4", "brcm,bcm2711"], "aarch64", "emmc", "revpi-connect-4"),
        (["siemens,iot2050-advanced-pg2", "ti,am654"], "aarch64", "emmc", "iot2050"),
        (["raspberrypi,3-model-b", "brcm,bcm2837"], "aarch64", "sd", ""),
        ([], "x86_64", "nvme", "x86"),
        ([], "x86_64", "cf", "x86-cf"),
        ([], "x86_64", "", ""),
        ([], "aarch64", "ssd", ""),
    ],
)
def test_detection(compatible: list[str], machine: str, storage: str, found: str) -> None:
    assert detect(compatible, machine, storage) == found

from pathlib import Path

import pytest

from gateway.appliance.facts import about, parse, read, why_forgotten

TEXT = """DISK=/dev/vda
SLOT=a
BOOT=/dev/vda1
ROOT_A=/dev/vda2
ROOT_B=/dev/vda3
SETTINGS=/dev/vda4
DATA=/dev/vda5
DATA_STATE=read-only
DATA_REASON="e2fsck cannot repair it by itself"
"""


def test_the_initrd_file_is_read() -> None:
    found = parse(TEXT)
    assert (found.disk, found.slot, found.data) == ("/dev/vda", "a", "/dev/vda5")
    assert found.data_reason == "e2fsck cannot repair it by itself"


@pytest.mark.parametrize(
    ("state", "writable"), [("ok", True), ("repaired", True), ("read-only", False), ("absent", False)]
)
def test_what_outlives_this_start(state: str, writable: bool) -> None:
    assert parse(TEXT.replace("read-only", state)).is_writable is writable


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (TEXT, "data partition /dev/vda5: e2fsck cannot repair it by itself"),
        (TEXT.replace("read-only", "absent"), "data partition /dev/vda5: e2fsck cannot repair it by itself"),
        (TEXT.replace("read-only", "repaired"), ""),
        ("half a file", ""),
    ],
)
def test_nothing_is_taken_for_kept_on_a_data_partition_in_ram(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "boot.env").write_text(text)
    assert why_forgotten(tmp_path / "boot.env") == why
    assert why_forgotten(tmp_path / "another") == ""


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match="SLOT, DATA_STATE: not there"):
        parse(TEXT.replace("SLOT=a\n", "").replace("DATA_STATE=read-only\n", ""))


def test_another_machine_has_none(tmp_path: Path) -> None:
    assert read(tmp_path / "none") is None


def test_the_initrd_writes_each_of_them() -> None:
    script = (Path(__file__).parents[4] / "images/initramfs/init").read_text()
    written = script[script.index("cat >/run/forebay-boot.env") :]
    for line in TEXT.splitlines():
        assert f"\n{line.partition('=')[0]}=" in written


def test_which_image(tmp_path: Path) -> None:
    assert about() == {} or "board" in about()
    path = tmp_path / "image.json"
    for text in (b"", b"[]", b"\xff", b"{"):
        path.write_bytes(text)
        assert about(path) == {}
    path.write_text('{"board": "rpi"}')
    assert about(path) == {"board": "rpi"}

import contextlib
from pathlib import Path

from gateway.provisioning.machine import FAT, PLACES, ask_for_reset, mount_of


def test_the_root_is_no_card(tmp_path: Path) -> None:
    assert mount_of(Path("/")) is None
    assert mount_of(Path("/proc/self")) == Path("/proc")


def test_a_reset_is_a_file_that_the_initrd_looks_for(tmp_path: Path) -> None:
    ask_for_reset(tmp_path, lambda folder: contextlib.nullcontext())
    script = (Path(__file__).parents[4] / "images/initramfs/init").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["factory-reset"]
    assert "flag=/root/$settings_mount/factory-reset " in script


def test_places_are_those_that_the_initrd_mounts() -> None:
    script = (Path(__file__).parents[4] / "images/initramfs/init").read_text()
    assert f"/root{PLACES.own}" in script
    assert f"/root{PLACES.settings.parent}" in script
    assert f"/root{FAT}" in script

from pathlib import Path

import pytest

from gateway.boards import board, names
from gateway.image.plan import FIRST_MIB, BuildError, boards, read_plan

IMAGES = Path(__file__).parents[4] / "images"


@pytest.mark.parametrize("name", boards(IMAGES))
def test_partitions_follow_each_other_and_data_is_last(name: str) -> None:
    plan = read_plan(IMAGES, name)
    at = FIRST_MIB
    for part in plan.partitions():
        assert part.start == at
        at += part.size
    found = [part.name for part in plan.partitions()]
    assert found[:3] == ["boot", "root-a", "root-b"]  # the initrd counts on these numbers
    assert found[-1] == "data"
    assert plan.data_number == len(found)
    assert plan.is_gpt or len(found) <= 4  # that is all an MBR has


@pytest.mark.parametrize("name", boards(IMAGES))
def test_the_kernel_is_told_what_the_initrd_asks_for(name: str) -> None:
    plan = read_plan(IMAGES, name)
    words = plan.command_line("b").split()
    assert "forebay.slot=b" in words
    assert f"forebay.data={plan.data_number}" in words
    script = (IMAGES / "initramfs/init").read_text()
    for key in ("forebay.slot", "forebay.boot", "forebay.data"):
        assert f"$(option {key})" in script


@pytest.mark.parametrize("name", names())
def test_images_have_what_the_boards_want_of_them(name: str) -> None:
    wanted = board(name).image
    if wanted is None or wanted.name not in boards(IMAGES):
        return
    plan = read_plan(IMAGES, wanted.name)
    assert plan.kernel == wanted.kernel_package
    assert plan.arch == board(name).arch
    assert plan.slot_mib << 20 == wanted.slot_bytes
    assert plan.is_gpt == (wanted.partition_table == "gpt")
    assert {path.rpartition("/")[2] for path in wanted.dtb} <= set(plan.device_trees)


def test_there_is_an_image_for_most_boards() -> None:
    found = {wanted.name for name in names() if (wanted := board(name).image) is not None}
    assert {"rpi", "x86-64"} <= found & set(boards(IMAGES))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('arch = "amd64"', 'arch = "sparc"', "arch = 'sparc': expected amd64 or arm64"),
        ("slot_mib = 512", "slot_mib = 0", "slot_mib = 0: expected a number of MiB"),
        ("slot_mib = 512", "slot_mb = 512", "slot_mb: unknown key"),
        ("packages = [", "packages = [1, ", "]: expected a list of texts"),
        ("[modules]", "[modules", "cannot be read"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = (IMAGES / "x86-64/image.toml").read_text()
    assert old in text
    (tmp_path / "x").mkdir()
    (tmp_path / "x/image.toml").write_text(text.replace(old, new))
    with pytest.raises(BuildError) as error:
        read_plan(tmp_path, "x")
    assert said in str(error.value)
    assert str(tmp_path / "x/image.toml") in str(error.value)

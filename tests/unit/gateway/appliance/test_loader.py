from pathlib import Path

import pytest

from gateway.appliance.loader import FOLDER, LoaderError, SystemdBoot, tidy

SHIPPED = "title Forebay 1.2.0 (a)\nversion 1.2.0\nsort-key forebay\nlinux /a/vmlinuz\noptions forebay.slot=a quiet\n"
TEMPLATE = "title Forebay 1.3.0 (@)\nversion 1.3.0\nsort-key forebay\nlinux /@/vmlinuz\noptions forebay.slot=@ quiet\n"


@pytest.fixture
def boot(tmp_path: Path) -> Path:
    """As an image ships it: slot a, and nothing in b."""
    (tmp_path / FOLDER).mkdir(parents=True)
    (tmp_path / FOLDER / "a.conf").write_text(SHIPPED)
    (tmp_path / FOLDER / "other-system.conf").write_text("title X\nversion 99\n")
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "vmlinuz").write_bytes(b"new kernel")
    (tmp_path / "bundle" / "entry.conf").write_text(TEMPLATE)
    return tmp_path


def names(boot: Path) -> list[str]:
    return sorted(path.name for path in (boot / FOLDER).iterdir() if path.name != "other-system.conf")


def firmware_boots(boot: Path) -> str:
    """What systemd-boot does: take the best entry, and count the try by its name."""
    entry = SystemdBoot(boot, "a").entries()[0]
    if entry.left:
        done = int(entry.path.stem.partition("-")[2] or 0)
        entry.path.rename(entry.path.with_name(f"{entry.slot}+{entry.left - 1}-{done + 1}.conf"))
    return entry.slot


def test_an_update_that_comes_up(boot: Path) -> None:
    loader = SystemdBoot(boot, "a")
    assert (loader.primary(), loader.is_good("a"), loader.is_good("b")) == ("a", True, False)
    loader.install("b", boot / "bundle")
    assert names(boot) == ["a.conf", "b+3.conf"]
    text = (boot / FOLDER / "b+3.conf").read_text()
    assert text == TEMPLATE.replace("@", "b").replace("version 1.3.0", "version 2")
    assert (boot / "b" / "vmlinuz").read_bytes() == b"new kernel"
    assert firmware_boots(boot) == "b"
    loader = SystemdBoot(boot, "b")
    assert loader.is_on_trial("b") and not loader.is_on_trial("a")
    loader.set_good("b")
    loader.set_good("b")
    assert names(boot) == ["a.conf", "b.conf"]
    assert not loader.is_on_trial("b")
    assert [firmware_boots(boot) for _ in range(5)] == ["b"] * 5


def test_one_that_does_not_come_up_is_tried_three_times(boot: Path) -> None:
    SystemdBoot(boot, "a").install("b", boot / "bundle")
    assert [firmware_boots(boot) for _ in range(6)] == ["b", "b", "b", "a", "a", "a"]
    assert names(boot) == ["a.conf", "b+0-3.conf"]
    loader = SystemdBoot(boot, "a")
    assert not loader.is_good("b")
    loader.set_bad("b")
    assert names(boot) == ["a.conf"]


def test_one_that_is_unhealthy_is_left_at_once(boot: Path) -> None:
    SystemdBoot(boot, "a").install("b", boot / "bundle")
    firmware_boots(boot)
    SystemdBoot(boot, "b").set_bad("b")
    assert names(boot) == ["a.conf", "b+0-3.conf"]
    assert firmware_boots(boot) == "a"


def test_back_and_forth(boot: Path) -> None:
    loader = SystemdBoot(boot, "a")
    loader.install("b", boot / "bundle")
    firmware_boots(boot)
    loader = SystemdBoot(boot, "b")
    loader.set_good("b")
    loader.set_primary("a")
    loader.set_primary("a")
    assert names(boot) == ["a.conf", "b.conf"]
    assert "version 3" in (boot / FOLDER / "a.conf").read_text()
    assert firmware_boots(boot) == "a"
    loader = SystemdBoot(boot, "a")
    loader.install("b", boot / "bundle")
    assert "version 4" in (boot / FOLDER / "b+3.conf").read_text()
    assert firmware_boots(boot) == "b"


def test_one_that_was_tried_out_may_be_tried_again(boot: Path) -> None:
    loader = SystemdBoot(boot, "a")
    loader.install("b", boot / "bundle")
    for _ in range(4):
        firmware_boots(boot)
    loader.set_primary("b")
    assert names(boot) == ["a.conf", "b+3.conf"]
    assert firmware_boots(boot) == "b"


def test_ten_comes_after_nine(boot: Path) -> None:
    loader = SystemdBoot(boot, "a")
    for count in range(2, 12):
        loader.install("b", boot / "bundle")
        assert loader.primary() == "b"
        loader.set_primary("a")
        assert loader.primary() == "a", count


def test_while_it_is_overwritten_nothing_points_to_it(boot: Path) -> None:
    loader = SystemdBoot(boot, "a")
    loader.install("b", boot / "bundle")
    (boot / "bundle" / "entry.conf").unlink()
    with pytest.raises(OSError, match=r"entry\.conf"):
        loader.install("b", boot / "bundle")
    assert names(boot) == ["a.conf"]
    assert loader.primary() == "a"


def test_what_cannot_be(boot: Path) -> None:
    loader = SystemdBoot(boot, "a")
    for act in (loader.set_primary, loader.set_good):
        with pytest.raises(LoaderError, match="slot b is empty"):
            act("b")
    loader.set_bad("b")
    (boot / FOLDER / "a.conf").unlink()
    with pytest.raises(LoaderError, match="no entry of a slot"):
        loader.primary()


def test_what_a_power_cut_left(boot: Path) -> None:
    (boot / FOLDER / "b+3.conf.new").write_text("tit")
    assert SystemdBoot(boot, "a").primary() == "a"
    tidy(boot)
    assert names(boot) == ["a.conf"]

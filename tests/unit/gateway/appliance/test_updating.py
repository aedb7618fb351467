"""The decisions, over a real folder of loader entries; the installation itself is in the test of the command."""

from pathlib import Path

import pytest

from gateway.appliance.bundle import Bundle, BundleError
from gateway.appliance.journal import CONFIRMED, FAILED, KEPT, ROLLED_BACK, Pending, Version
from gateway.appliance.loader import FOLDER, LoaderError
from gateway.appliance.slots import TRIAL, NoApplianceError, appliance
from gateway.appliance.updating import (
    DONE,
    LAST_WORDS,
    LEAVE,
    NOTHING,
    UNHEALTHY,
    Updates,
    download_path,
    forget_download,
    loader_of,
)
from tests.machine_root import ENTRY, boots, kernel, machine_root

OLD, NEW = Version("1.2.0", 3, 3), Version("1.3.0", 4, 3)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return machine_root(tmp_path)


def updates(root: Path) -> Updates:
    where = appliance(root)
    return Updates(where, OLD if where.slot == "a" else NEW, lambda: "now")


def installed(root: Path, no_rollback: bool = False) -> None:
    """As after an installation of the new version into b."""
    bundle = root / "run/rauc/bundle/boot"
    bundle.mkdir(parents=True, exist_ok=True)
    (bundle / "vmlinuz").write_bytes(kernel("1.3.0"))
    (bundle / "entry.conf").write_text(ENTRY.replace("=a", "=@").replace("/a/", "/@/"))
    made = updates(root)
    made.place("b")
    made.journal.slots = {"a": OLD, "b": NEW}
    made.journal.pending = Pending("b", "1.3.0", made.where.boot_id, no_rollback)
    made.journal.write()


def entries(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "boot" / FOLDER).iterdir())


def boot_next(root: Path, boot_id: str) -> str:
    """What the firmware does."""
    entry = updates(root).loader.entries()[0]  # type: ignore[union-attr]
    if entry.left:
        entry.path.rename(entry.path.with_name(f"{entry.slot}+{entry.left - 1}-{3 - entry.left + 1}.conf"))
    boots(root, entry.slot, boot_id)
    return entry.slot


def healthy() -> str:
    return ""


def never() -> str:
    raise AssertionError("nobody asks for the health")


def test_nothing_to_confirm(root: Path) -> None:
    assert updates(root).confirm(never).result == NOTHING
    installed(root)
    assert updates(root).confirm(never).result == NOTHING  # it was not booted yet
    assert updates(root).journal.pending is not None


def test_a_healthy_one_stays(root: Path) -> None:
    installed(root)
    assert boot_next(root, "second") == "b"
    with pytest.raises(NoApplianceError, match="on trial"):
        updates(root).require_ready()
    assert updates(root).status()["on_trial"]
    assert updates(root).confirm(healthy).result == DONE
    found = updates(root)
    found.require_ready()
    assert entries(root) == ["a.conf", "b.conf"]
    assert (found.journal.pending, found.journal.ended[-1].outcome) == (None, CONFIRMED)
    assert found.status()["other"] == {"slot": "a", "version": "1.2.0", "can_boot": True}
    assert boot_next(root, "third") == "b"
    assert updates(root).confirm(never).result == NOTHING


def test_an_unhealthy_one_is_left_with_the_reason(root: Path) -> None:
    installed(root)
    boot_next(root, "second")
    found = updates(root).confirm(lambda: "the broker does not answer")
    assert (found.result, found.reason) == (LEAVE, "the broker does not answer")
    assert boot_next(root, "third") == "a"
    back = updates(root)
    assert back.confirm(never).result == NOTHING
    last = back.journal.ended[-1]
    assert (last.version, last.outcome, last.reason) == ("1.3.0", ROLLED_BACK, "the broker does not answer")
    back.require_ready()


def test_one_that_never_came_up(root: Path) -> None:
    installed(root)
    assert [boot_next(root, str(number)) for number in range(4)] == ["b", "b", "b", "a"]
    assert updates(root).confirm(never).result == DONE
    last = updates(root).journal.ended[-1]
    assert (last.version, last.outcome) == ("1.3.0", ROLLED_BACK)
    assert "did not come up" in last.reason
    assert entries(root) == ["a.conf"]
    assert not updates(root).status()["other"]["can_boot"]
    assert updates(root).confirm(never).result == NOTHING


def test_one_whose_program_does_not_run_is_left_by_its_unit(root: Path) -> None:
    """Which says why in a file."""
    installed(root)
    assert [boot_next(root, str(number)) for number in range(4)] == ["b", "b", "b", "a"]
    words = appliance(root).state_dir / LAST_WORDS
    words.write_text("ModuleNotFoundError: No module named 'gateway'\n")
    updates(root).confirm(never)
    last = updates(root).journal.ended[-1]
    assert last.outcome == ROLLED_BACK
    assert last.reason == "it could not be confirmed: ModuleNotFoundError: No module named 'gateway'"
    assert not words.exists()
    overlay = Path(__file__).parents[4] / "images/overlay/usr/lib/systemd/system"
    unit = (overlay / "forebay-trial.service").read_text()
    assert f">/{words.relative_to(root)}'" in unit and f"ConditionPathExists=/{TRIAL}\n" in unit
    assert f": >/{TRIAL}\n" in (Path(__file__).parents[4] / "images/initramfs/init").read_text()


def test_what_no_firmware_starts_is_not_made_bootable(root: Path) -> None:
    bundle = root / "run/rauc/bundle/boot"
    bundle.mkdir(parents=True)
    (bundle / "vmlinuz").write_bytes(b"\x7fELF")
    made = updates(root)
    made.where.state_dir.mkdir(parents=True)
    with pytest.raises(OSError, match="vmlinuz: no kernel for"):
        made.place("b")
    assert "no kernel for" in (made.where.state_dir / LAST_WORDS).read_text()
    assert entries(root) == ["a.conf"]


def test_an_installation_that_was_cut_short(root: Path) -> None:
    made = updates(root)
    made.journal.pending = Pending("b", "1.3.0", made.where.boot_id)
    made.journal.slots = {"a": OLD, "b": NEW}
    made.journal.write()
    assert boot_next(root, "second") == "a"
    assert "cut short" in updates(root).confirm(never).reason
    last = updates(root).journal.ended[-1]
    assert (last.outcome, last.reason) == (FAILED, "the installation was cut short")
    assert "b" not in updates(root).journal.slots


def test_what_is_overwritten_boots_no_more(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a start after a power cut does not take it for the new one."""
    installed(root)
    boot_next(root, "second")
    updates(root).confirm(healthy)
    updates(root).roll_back(3)
    boot_next(root, "third")
    updates(root).confirm(healthy)
    assert entries(root) == ["a.conf", "b.conf"]
    monkeypatch.setenv("PATH", str(root))
    with pytest.raises(BundleError, match="rauc cannot be run"):
        updates(root).install(Bundle(root / "x.raucb", "forebay-test", NEW), False, lambda *_: None)
    assert entries(root) == ["a.conf"]
    last = updates(root).journal.ended[-1]
    assert (last.version, last.outcome) == ("1.3.0", FAILED)


def test_without_a_way_back_it_stays_unhealthy(root: Path) -> None:
    installed(root, no_rollback=True)
    boot_next(root, "second")
    assert updates(root).confirm(lambda: "why").result == UNHEALTHY
    last = updates(root).journal.ended[-1]
    assert (last.outcome, last.reason) == (KEPT, "why")
    assert boot_next(root, "third") == "b"


def test_with_nothing_to_go_back_to_it_stays(root: Path) -> None:
    installed(root)
    boot_next(root, "second")
    (root / "boot" / FOLDER / "a.conf").unlink()
    found = updates(root).confirm(lambda: "why")
    assert (found.result, found.reason) == (UNHEALTHY, "why; there is no version to go back to")
    assert entries(root) == ["b+2-1.conf"]


def test_back_on_request(root: Path) -> None:
    installed(root)
    boot_next(root, "second")
    updates(root).confirm(healthy)
    with pytest.raises(LoaderError, match=r"version 1\.2\.0 cannot read the data any more"):
        updates(root).roll_back(4)
    assert updates(root).roll_back(3) == "1.2.0"
    assert boot_next(root, "third") == "a"
    assert updates(root).confirm(healthy).result == DONE
    assert updates(root).journal.ended[-1].reason == "by request"
    assert updates(root).roll_back(3) == "1.3.0"


def test_back_to_nothing(root: Path) -> None:
    with pytest.raises(LoaderError, match="no version to go back to"):
        updates(root).roll_back(0)


def test_the_system_itself_says_that_it_cannot_serve(root: Path) -> None:
    assert updates(root).fail("emergency mode").result == NOTHING  # not on trial
    installed(root)
    boot_next(root, "second")
    assert updates(root).fail("emergency mode").result == LEAVE
    assert updates(root).journal.ended[-1].reason == "emergency mode"


def test_which_boot_loader(root: Path) -> None:
    assert type(loader_of(appliance(root))).__name__ == "SystemdBoot"
    (root / "boot/loader/entries/a.conf").unlink()
    (root / "boot/loader/entries").rmdir()
    with pytest.raises(NoApplianceError, match="neither systemd-boot nor"):
        loader_of(appliance(root))
    (root / "boot/config.txt").write_text("os_prefix=a/\n")
    assert type(loader_of(appliance(root))).__name__ == "PiBoot"


def test_a_download_goes(root: Path) -> None:
    where = appliance(root)
    forget_download(where)
    where.state_dir.mkdir(parents=True)
    download_path(where).touch()
    forget_download(where)
    assert not download_path(where).exists()

import subprocess
from pathlib import Path

import pytest

from gateway.appliance.loader import LoaderError
from gateway.appliance.piboot import BEFORE, CONFIG, TRIAL, PiBoot
from gateway.appliance.slots import TRIAL as FLAG

INIT = Path(__file__).parents[4] / "images/initramfs/init"
SHIPPED = "arm_64bit=1\nos_prefix=a/\nkernel=vmlinuz\n"
BROUGHT = "arm_64bit=1\nos_prefix=@/\nkernel=vmlinuz\nenable_uart=1\n"


@pytest.fixture
def boot(tmp_path: Path) -> Path:
    (tmp_path / CONFIG).write_text(SHIPPED)
    (tmp_path / "a").mkdir()
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "vmlinuz").write_bytes(b"new kernel")
    (tmp_path / "bundle" / CONFIG).write_text(BROUGHT)
    return tmp_path


def starts(boot: Path) -> str:
    """The folder that the firmware takes kernel and initrd from; the latter then does what it does first.

    It says so when that is a trial.
    """
    text = (boot / CONFIG).read_text()
    slot = next(line[len("os_prefix=")] for line in text.splitlines() if line.startswith("os_prefix="))
    before = boot / BEFORE
    is_trial = before.exists() and f"os_prefix={slot}/" not in before.read_text()
    script = INIT.read_text()
    once = script[script.index("try_once() {") : script.index("in_root() {")]
    once = once.replace("/boot", str(boot)).replace("/run/", f"{boot}/")
    # the partition is mounted there already
    shell = f"mount() {{ :; }}; umount() {{ :; }}; boot=x slot={slot}\n{once}\ntry_once"
    subprocess.run(["sh", "-euc", shell], check=True)
    told = boot / Path(FLAG).name
    assert told.exists() == is_trial
    told.unlink(missing_ok=True)
    return slot


def test_an_update_that_comes_up(boot: Path) -> None:
    loader = PiBoot(boot, "a")
    assert (loader.primary(), loader.is_good("b"), starts(boot)) == ("a", False, "a")
    loader.install("b", boot / "bundle")
    assert (boot / CONFIG).read_text() == BROUGHT.replace("@", "b")
    assert (boot / BEFORE).read_text() == SHIPPED
    assert loader.primary() == "b" and loader.is_on_trial("b") and not loader.is_on_trial("a")
    assert starts(boot) == "b"
    loader = PiBoot(boot, "b")
    assert loader.is_there("b") and loader.is_on_trial("b") and not loader.is_on_trial("a")
    assert (loader.primary(), (boot / CONFIG).read_text()) == ("a", SHIPPED)
    loader.set_good("b")
    loader.set_good("b")
    assert not loader.is_on_trial("b")
    assert (boot / CONFIG).read_text() == BROUGHT.replace("@", "b")
    assert not (boot / TRIAL).exists() and not (boot / BEFORE).exists()
    assert (starts(boot), starts(boot)) == ("b", "b")


def test_any_reset_leaves_one_that_does_not_come_up(boot: Path) -> None:
    PiBoot(boot, "a").install("b", boot / "bundle")
    assert (starts(boot), starts(boot), starts(boot)) == ("b", "a", "a")
    loader = PiBoot(boot, "a")
    assert loader.is_there("b") and loader.primary() == "a"
    loader.set_bad("b")
    assert not (boot / TRIAL).exists() and not (boot / "b").exists()
    assert not loader.is_there("b")


def test_one_that_is_unhealthy(boot: Path) -> None:
    PiBoot(boot, "a").install("b", boot / "bundle")
    assert starts(boot) == "b"
    loader = PiBoot(boot, "b")
    loader.set_primary("a")
    loader.set_bad("b")
    assert (starts(boot), loader.primary(), (boot / TRIAL).exists()) == ("a", "a", False)


def test_one_that_is_taken_back_before_it_was_tried(boot: Path) -> None:
    loader = PiBoot(boot, "a")
    loader.install("b", boot / "bundle")
    loader.set_primary("a")
    assert (loader.primary(), loader.is_on_trial("b"), (boot / CONFIG).read_text()) == ("a", False, SHIPPED)
    loader.set_primary("b")
    assert (starts(boot), starts(boot)) == ("b", "a")


def test_back_and_forth(boot: Path) -> None:
    PiBoot(boot, "a").install("b", boot / "bundle")
    assert starts(boot) == "b"
    loader = PiBoot(boot, "b")
    loader.set_good("b")
    loader.set_primary("a")
    assert (loader.primary(), starts(boot), starts(boot)) == ("a", "a", "b")
    PiBoot(boot, "b").set_primary("b")
    assert (loader.primary(), starts(boot), starts(boot)) == ("b", "b", "b")


@pytest.mark.parametrize("last", [TRIAL, BEFORE])
def test_the_power_goes_before_config_txt_is_changed(boot: Path, last: str) -> None:
    loader = PiBoot(boot, "a")
    loader.install("b", boot / "bundle")
    if last == TRIAL:
        (boot / BEFORE).unlink()
    (boot / CONFIG).write_text(SHIPPED)
    assert (starts(boot), starts(boot)) == ("a", "a")
    assert PiBoot(boot, "a").primary() == "a"
    PiBoot(boot, "a").set_bad("b")
    assert sorted(path.name for path in boot.iterdir()) == ["a", "bundle", CONFIG]


def test_what_cannot_be(boot: Path) -> None:
    loader = PiBoot(boot, "a")
    with pytest.raises(LoaderError, match="slot b is empty"):
        loader.set_primary("b")
    with pytest.raises(LoaderError, match="not on trial"):
        loader.set_good("b")
    with pytest.raises(LoaderError, match=r"the one that config\.txt boots"):
        loader.set_bad("a")
    (boot / "bundle" / CONFIG).write_text("kernel=x\n")
    with pytest.raises(LoaderError, match="no line os_prefix"):
        loader.install("b", boot / "bundle")
    assert (starts(boot), starts(boot)) == ("a", "a")
    (boot / CONFIG).write_text("kernel=x\n")
    with pytest.raises(LoaderError, match="no line os_prefix"):
        loader.primary()

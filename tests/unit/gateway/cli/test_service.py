"""``forebay service`` as it is called."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.command import Forebay

BOOTED = Path("/run/systemd/system").is_dir()
needs_tools = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("systemd-sysusers") is None, reason="needs root and systemd's tools"
)


@pytest.mark.skipif(BOOTED, reason="systemd runs here")
@pytest.mark.parametrize(
    "words", [("install",), ("uninstall",), ("status",), ("status", "--json"), ("install", "--dry-run")]
)
def test_without_systemd_it_says_so_in_one_line(forebay: Forebay, words: tuple[str, ...]) -> None:
    code, out, err = forebay("service", *words)
    assert (code, out) == (1, "")
    assert err.startswith("forebay: systemd does not run here")
    assert err.count("\n") == 1


def test_who_is_not_root_is_told(forebay: Forebay, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for word in ("install", "uninstall"):
        assert forebay("service", word, "--root", str(tmp_path)) == (
            1,
            "",
            "forebay: only root can do that: try again with sudo\n",
        )


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    prefix = tmp_path / "venv"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "forebay").touch()
    monkeypatch.setattr(sys, "prefix", str(prefix))
    (tmp_path / "root" / "etc").mkdir(parents=True)
    return tmp_path / "root"


@needs_tools
def test_it_installs_once_and_says_what_it_did(forebay: Forebay, environment: Path) -> None:
    root = str(environment)
    code, out, err = forebay("service", "install", "--root", root, "--dry-run")
    assert (code, err) == (0, "")
    assert f"write {root}/etc/systemd/system/forebay.service\n" in out
    assert list((environment / "etc").iterdir()) == [], "a dry run did something"
    assert forebay("service", "install", "--root", root).code == 0
    assert (environment / "etc/systemd/system/multi-user.target.wants/forebay.service").is_symlink()
    assert forebay("service", "install", "--root", root) == (0, "nothing to do\n", "")
    code, out, err = forebay("service", "uninstall", "--root", root)
    assert (code, err) == (0, "")
    assert f"remove {root}/etc/systemd/system/forebay.service\n" in out
    assert forebay("service", "uninstall", "--root", root) == (0, "nothing to do\n", "")


@needs_tools
def test_bad_settings_are_named_and_nothing_is_written(forebay: Forebay, environment: Path) -> None:
    config = environment / "etc/forebay.toml"
    config.write_text("listen = 5\n")
    code, _, err = forebay("service", "install", "--root", str(environment), "-c", "/etc/forebay.toml")
    assert code == 2
    assert f"{config}: listen = 5: expected a list" in err
    assert list((environment / "etc").iterdir()) == [config]

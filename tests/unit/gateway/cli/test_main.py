"""The command as a whole: its exit codes, and one line for whatever is wrong."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gateway
from gateway import __version__
from tests.command import Forebay
from tests.harness import REPO


def test_version(forebay: Forebay) -> None:
    assert forebay("--version") == (0, f"forebay {__version__}\n", "")


@pytest.mark.parametrize(
    "arguments", [(), ("config",), ("user",), ("sessions",), ("run", "--help"), ("pub", "--help"), ("sub", "--help")]
)
def test_help(forebay: Forebay, arguments: tuple[str, ...]) -> None:
    code, out, err = forebay(*arguments)
    assert "Usage: forebay" in out + err
    assert code == (0 if "--help" in arguments else 2)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("frobnicate",), "frobnicate"),
        (("status", "--jsn"), "--jsn"),
        (("sub",), "FILTERS"),
        (("pub", "a", "b", "--qos", "3"), "--qos"),
        (("run", "--config", "none.toml"), "none.toml: cannot be read"),
        (("run", "--listen", "77"), 'listen = ["77"]: expected a list of "HOST:PORT"'),
        (("run", "--listen", "..:77"), 'listen = ["..:77"]: expected a list of "HOST:PORT"'),
        (("sub", "a", "--host", ".."), "--host ..: expected a name or an address"),
        (("--url", "https://..:1", "--token-file", "x", "status"), "--url https://..:1: expected https://HOST:PORT"),
        (("--url", "https://a b:1", "--token-file", "x", "status"), "--url https://a b:1: expected https://HOST:PORT"),
        (("run", "--set", "mqtt.max_inflight=0"), "--set: mqtt.max_inflight = 0: expected an integer from 1 to 65535"),
    ],
)
def test_bad_usage_is_one_line_and_2(forebay: Forebay, arguments: tuple[str, ...], expected: str) -> None:
    code, out, err = forebay(*arguments)
    assert (code, out) == (2, "")
    assert expected.lower() in err.lower()
    assert err.startswith("forebay: ")
    assert err.count("\n") == 1


def test_what_the_system_refuses_is_one_line(forebay: Forebay, tmp_path: Path) -> None:
    (tmp_path / "images").symlink_to(REPO / "images")
    (tmp_path / "x.deb").touch()
    said = forebay("image", "build", "--board", "x86-64", "--deb", "x.deb", "--signing", "x.deb")
    assert said == (1, "", "forebay: x.deb: Not a directory\n")


def test_python_dash_m_is_the_same_command() -> None:
    root = Path(str(gateway.__file__)).parent.parent
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "gateway", "config", "show", "mqtt.nothing"],
        env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "forebay: mqtt.nothing is no setting; forebay config show lists them\n"


def test_shells_complete_commands(forebay: Forebay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMP_WORDS", "forebay sess")
    monkeypatch.setenv("COMP_CWORD", "1")
    monkeypatch.setenv("_FOREBAY_COMPLETE", "complete_bash")
    assert forebay().out.split() == ["sessions"]

"""``forebay config``."""

import tomllib
from pathlib import Path

from gateway.settings.table import TABLE
from tests.command import Forebay


def test_init_writes_what_check_accepts_and_show_shows(forebay: Forebay, tmp_path: Path) -> None:
    assert forebay("config", "init") == (0, "forebay.toml: written\n", "")
    path = tmp_path / "forebay.toml"
    commented = path.read_text()
    assert tomllib.loads(commented) == {}
    settings = [line[2:] for line in commented.splitlines() if line[2:].partition(" = ")[0] in TABLE]
    path.write_text("\n".join(settings))
    assert forebay("config", "check", "-c", "forebay.toml") == (0, "forebay.toml: sound\n", "")
    assert forebay("config", "show", "-c", "forebay.toml").out.splitlines() == settings
    usual = [line.replace('"auto"', '"none"') if line.startswith("board = ") else line for line in settings]
    assert forebay("config", "show", "--set", "board=none").out.splitlines() == usual


def test_init_does_not_write_over_a_file(forebay: Forebay, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("x")
    code, _, err = forebay("config", "init", "mine.toml")
    assert (code, err) == (1, "forebay: mine.toml: is there already; --force writes over it\n")
    assert (tmp_path / "mine.toml").read_text() == "x"
    assert forebay("config", "init", "--force", "mine.toml").code == 0
    assert forebay("config", "init", "none/mine.toml").err == (
        "forebay: none/mine.toml: cannot be written: No such file or directory\n"
    )


def test_check_names_what_is_wrong(forebay: Forebay, tmp_path: Path) -> None:
    (tmp_path / "f.toml").write_text('[store]\nmax_bytes = "x"\n')
    code, out, err = forebay("config", "check", "--config", "f.toml")
    assert (code, out) == (2, "")
    assert err == (
        'forebay: f.toml: store.max_bytes = "x": expected an integer from 1048576 to 1125899906842624 (bytes)'
        ' or a size such as "512MiB"\n'
    )


def test_show_one(forebay: Forebay) -> None:
    assert forebay("config", "show", "--set", "sys_interval=5m", "sys_interval").out == 'sys_interval = "5m"\n'

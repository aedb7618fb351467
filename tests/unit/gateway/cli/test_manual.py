"""The man page: every command is in it, and what shows man pages has nothing against it."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from gateway.cli.main import app
from gateway.cli.manual import lines

PAGE = "".join(line + "\n" for line in lines())


def paths(group: Any, words: tuple[str, ...] = ("forebay",)) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from paths(command, (*words, name))
        else:
            yield " ".join((*words, name)), command


def plain(text: str) -> str:
    return text.replace(r"\-", "-").replace(r"\(dq", '"').replace(r"\fB", "").replace(r"\fI", "").replace(r"\fR", "")


def test_every_command_with_every_option_is_in_it() -> None:
    page = plain(PAGE)
    sections = dict(re.findall(r'^\.SS "([^"\n]+)"\n(.*?)(?=^\.S[SH] )', page, re.MULTILINE | re.DOTALL))
    found = list(paths(get_command(app)))
    assert len(found) > 50
    for path, command in found:
        (title,) = [name for name in sections if name == path or name.startswith((path + " [", path + " "))][:1] or [""]
        assert title, path
        for one in command.params:
            for name in one.opts if one.param_type_name == "option" else ():
                assert name in sections[title], (path, name)


def test_nothing_in_it_is_taken_for_a_macro() -> None:
    macros = {line.split()[0] for line in PAGE.splitlines() if line.startswith((".", "'"))}
    assert macros <= {".TH", ".SH", ".SS", ".TP", ".B", ".sp"}
    assert PAGE.isascii()
    assert "\n\n" not in PAGE


def test_the_date_is_that_of_the_tree_or_the_one_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.match(r'\.TH FOREBAY 1 "20\d\d-\d\d-\d\d" ', PAGE)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert next(lines()).startswith('.TH FOREBAY 1 "2023-11-14" "Forebay ')


@pytest.mark.parametrize(
    "command",
    [
        ["mandoc", "-T", "lint", "-W", "warning"],
        ["groff", "-man", "-Tutf8", "-ww", "-z"],
        ["man", "--warnings", "-l", "-E", "UTF-8"],
    ],
    ids=["mandoc", "groff", "man"],
)
def test_what_shows_it_has_no_complaint(command: list[str], tmp_path: Path) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    file = tmp_path / "forebay.1"
    file.write_text(PAGE)
    done = subprocess.run([*command, str(file)], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    if command[0] == "mandoc":
        assert done.stdout == ""
    if command[0] == "man":
        assert "forebay sessions list" in re.sub(".\b", "", done.stdout)

"""The man page from the commands: ``python -m gateway.cli.manual > forebay.1``.

Its date is that of SOURCE_DATE_EPOCH, or of the newest file that it was made from, so that one tree gives one page.
"""

import os
import sys
import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from typer.core import TyperGroup
from typer.main import get_command

from gateway import __version__
from gateway.cli.main import app

_EXIT: Final = (
    ("0", "Done."),
    ("1", "Refused or failed; forebay doctor: warnings."),
    ("2", "Bad usage or settings; one line says which, and what is expected."),
    ("3", "No broker is running, or none answers at --url."),
    ("4", "forebay doctor: messages are lost in such an outage."),
)
_ENVIRONMENT: Final = (
    ("FOREBAY_CONFIG", "The settings file, where --config is not given."),
    ("FOREBAY_PASSWORD", "A password, for commands that would ask for one."),
    ("FOREBAY_KEY", "In place of the setting KEY, in capitals and with _ for each dot and hyphen."),
)
_FILES: Final = (
    ("/etc/forebay/forebay.toml", "The settings of the service; forebay config init writes one with all of them."),
    ("/var/lib/forebay", "The data folder of the service: database, users, tokens, the control socket."),
)


def lines() -> Iterator[str]:
    """The page, line by line, in the macros of man(7)."""
    root = get_command(app)
    yield f'.TH FOREBAY 1 "{_date()}" "Forebay {__version__}" "User Commands"'
    yield from (".SH NAME", rf"forebay \- {_text(_help(root)).rstrip('.')}")
    yield from (".SH SYNOPSIS", ".B forebay", r"[\fIOPTIONS\fR] \fICOMMAND\fR [\fIARGUMENTS\fR]")
    yield ".SH DESCRIPTION"
    yield from _paragraphs(
        "forebay run serves. The other commands ask the broker that runs on this machine over the control socket in "
        "its data folder, which only its owner can open, or change the files that it reads. Those that only ask go to "
        "another machine too: forebay --url https://HOST:PORT --token-file FILE COMMAND.\n\n"
        "Most commands print what programs can read with --json. Each has a --help."
    )
    yield ".SH OPTIONS"
    yield from _parameters(root)
    yield ".SH COMMANDS"
    yield from _commands(root, ["forebay"])
    for title, rows in (("EXIT STATUS", _EXIT), ("ENVIRONMENT", _ENVIRONMENT), ("FILES", _FILES)):
        yield f".SH {title}"
        for name, text in rows:
            yield from (".TP", rf"\fB{_text(name)}\fR", *_paragraphs(text))


def _date() -> str:
    said = os.environ.get("SOURCE_DATE_EPOCH")
    newest = int(said) if said else max(int(path.stat().st_mtime) for path in Path(__file__).parent.glob("*.py"))
    return datetime.fromtimestamp(newest, UTC).strftime("%Y-%m-%d")


def _commands(group: Any, words: list[str]) -> Iterator[str]:
    for name, command in group.commands.items():
        if command.hidden:
            continue
        if isinstance(command, TyperGroup):
            yield from _commands(command, [*words, name])
            continue
        arguments = "".join(f" {_argument(one)}" for one in command.params if one.param_type_name == "argument")
        yield f'.SS "{_text(" ".join([*words, name]) + arguments)}"'
        yield from _paragraphs(_help(command))
        yield from _parameters(command)


def _argument(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _parameters(command: Any) -> Iterator[str]:
    for one in command.params:
        if one.param_type_name == "argument":
            if one.help:
                yield from (".TP", rf"\fI{_text(one.metavar or one.name.upper())}\fR", *_paragraphs(one.help))
            continue
        if one.hidden:
            continue
        names = ", ".join(rf"\fB{_text(name)}\fR" for name in [*one.opts, *one.secondary_opts])
        value = "" if one.is_flag else rf" \fI{_text(one.metavar or one.opts[0].lstrip('-').upper())}\fR"
        yield from (".TP", names + value, *_paragraphs(_described(one)))


def _described(option: Any) -> str:
    text = option.help or ""
    shown = option.show_default is not False and not option.is_flag
    if shown and option.default not in (None, "", (), []) and not callable(option.default):
        text += f" Default: {option.default}."
    return text.strip() or "See above."


def _help(command: Any) -> str:
    return textwrap.dedent(command.help or "").strip()


def _paragraphs(text: str) -> Iterator[str]:
    """Each on one line, an empty paragraph between two."""
    for number, paragraph in enumerate(textwrap.dedent(text).strip().split("\n\n")):
        if number:
            yield ".sp"
        line = _text(" ".join(paragraph.split()))
        yield rf"\&{line}" if line.startswith((".", "'")) else line


def _text(text: str) -> str:
    """Without anything that would be taken for a macro or an escape."""
    text = text.replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq")
    return "".join(char if char.isascii() else rf"\[u{ord(char):04X}]" for char in text)


def main() -> None:
    """Write the page to the output."""
    sys.stdout.writelines(line + "\n" for line in lines())


if __name__ == "__main__":
    main()

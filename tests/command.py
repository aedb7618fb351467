"""The command ``forebay`` as the tests call it: arguments in, exit code and output out."""

from collections.abc import Callable
from typing import NamedTuple


class Result(NamedTuple):
    code: int
    out: str
    err: str


Forebay = Callable[..., Result]
"""``forebay("config", "show", stdin=b"")``; a fixture of tests/unit/gateway/cli gives it."""

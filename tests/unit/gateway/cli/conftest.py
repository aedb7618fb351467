"""The command run in this process, with its exit code and what it wrote."""

import io
import sys
from pathlib import Path

import pytest

from gateway.cli.main import main
from tests.command import Forebay, Result


@pytest.fixture
def forebay(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Forebay:
    """In a folder of its own and with a screen 200 wide."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "argv", ["forebay", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        assert isinstance(code, int)
        return Result(code, *capfd.readouterr())

    return run

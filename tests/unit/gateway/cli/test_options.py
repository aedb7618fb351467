"""What the shared options make of the settings."""

from pathlib import Path

import pytest

from gateway.cli.options import settings_from


def test_options_win_over_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_LISTEN", "h:1")
    monkeypatch.setenv("FOREBAY_DATA_DIR", "/env")
    settings = settings_from(None, "/option", ["h:2", "h:3"], ["mqtt.max_inflight=5", "data_dir=/set"])
    assert settings.listen == [("h", 2), ("h", 3)]
    assert settings.data_dir == Path("/option")
    assert settings.mqtt_max_inflight == 5
    assert settings_from(None, None).listen == [("h", 1)]


def test_notes_go_to_the_error_output(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FOREBAY_DURABILTY", "os")
    settings_from(None, None)
    assert capsys.readouterr().err == (
        "forebay: FOREBAY_DURABILTY is no setting and has no effect; did you mean FOREBAY_DURABILITY?\n"
    )

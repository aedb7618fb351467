"""The engine of the settings, and what is said where it cannot be made."""

import sys
from pathlib import Path

import pytest

from gateway.engine.making import identity, make
from gateway.settings.table import Settings, Sources, load
from gateway.store.engine import EngineRefused


def settings(folder: Path, *more: str, engine: str = "nats") -> Settings:
    given = (f"application_log.engine={engine}", f"data_dir={folder}")
    return load(Sources(sets=(*given, *(f"application_log.{one}" for one in more))), {})


def test_a_gateway_keeps_its_identity(tmp_path: Path) -> None:
    made = identity(tmp_path)
    assert identity(tmp_path) == made
    (tmp_path / "engine-identity").write_bytes(b"\xff")
    assert identity(tmp_path) != made
    assert len(identity(tmp_path)) == 8


@pytest.mark.parametrize("engine", ["nats", "kafka"])
def test_an_engine_is_made_whatever_its_files_are(tmp_path: Path, engine: str) -> None:
    """They are read at each connection."""
    pytest.importorskip({"nats": "nats", "kafka": "aiokafka"}[engine])
    given = settings(tmp_path, "engine_user=u", f"engine_password_file={tmp_path}/there-is-none", engine=engine)
    assert make(given, lambda: None).name == engine


@pytest.mark.parametrize(("engine", "package"), [("nats", "nats"), ("kafka", "aiokafka")])
def test_a_package_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: str, package: str
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.startswith(f"gateway.store.{engine}")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(EngineRefused, match=rf'pip install "forebay\[{engine}\]"'):
        make(settings(tmp_path, engine=engine), lambda: None)


def test_a_folder_that_takes_no_identity_is_named(tmp_path: Path) -> None:
    pytest.importorskip("nats")
    (tmp_path / "file").touch()
    with pytest.raises(EngineRefused, match=f"application_log: .*{tmp_path}/file"):
        make(settings(tmp_path / "file"), lambda: None)

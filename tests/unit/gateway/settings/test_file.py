"""Changing the settings file: one key, with all else as its owner wrote it."""

import tomllib
from pathlib import Path

import pytest

from gateway.settings.file import HISTORY_MAX, check, edited, history, planned, read, write
from gateway.settings.table import SettingsError

TEXT = """# of the plant
durability = "fsync"  # as the auditor wants it

[mqtt]
# the historian is slow
max_inflight = 20

[[client_type]]
client_id = "historian"
type = "APPLICATION"
"""


@pytest.mark.parametrize(
    ("text", "name", "value", "line"),
    [
        (TEXT, "mqtt.max_inflight", 30, "max_inflight = 30"),
        (TEXT, "durability", "os", 'durability = "os"  # as the auditor wants it'),
        (TEXT, "log.level", "debug", 'level = "debug"'),
        (TEXT, "sys_interval", "5s", 'sys_interval = "5s"'),
        ("", "mqtt.max_inflight", 30, "max_inflight = 30"),
        ("mqtt.max_inflight = 3\n", "mqtt.max_inflight", 30, "mqtt.max_inflight = 30"),
        ("mqtt = {max_inflight = 3}\n", "mqtt.max_inflight", 30, "mqtt = {max_inflight = 30}"),
        (TEXT, "mqtt.buffered-delivery.session-cache-max-size", 9, "session-cache-max-size = 9"),
    ],
)
def test_one_key_changes_and_the_rest_stays(text: str, name: str, value: object, line: str) -> None:
    changed = edited(text, {name: value})
    assert line in changed.splitlines()
    assert [kept for kept in text.splitlines() if kept.startswith("#")] == [
        kept for kept in changed.splitlines() if kept.startswith("#")
    ]
    found: object = tomllib.loads(changed)
    for key in name.split("."):
        assert isinstance(found, dict)
        found = found[key]
    assert found == value
    assert edited(changed, {name: value}) == changed


def test_a_key_is_taken_out() -> None:
    changed = edited(TEXT, {"mqtt.max_inflight": None, "log.level": None})
    assert "max_inflight" not in changed
    assert "# the historian is slow" in changed


def test_what_cannot_be_changed_safely_is_not_changed() -> None:
    mixed = "mqtt.max_inflight = 3\nmqtt.receive_maximum = 4\n"
    with pytest.raises(ValueError, match="cannot be changed in place"):
        edited(mixed, {"mqtt.buffered-delivery.session-cache-max-size": 9})
    with pytest.raises(ValueError, match="cannot be changed in place"):
        edited('mqtt = "oops"\n', {"mqtt.max_inflight": 9})
    with pytest.raises(ValueError, match="Expected"):
        edited("no toml", {"durability": "os"})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "forebay.toml"
    path.write_text('durability = "fsync"\n')
    path.chmod(0o640)
    return path


def test_written_with_what_stood_there_kept(file: Path) -> None:
    settings = write(file, planned(file, {"durability": "os"}), "1")
    assert settings.durability == "os"
    assert read(file) == 'durability = "os"\n'
    assert [kept.read_text() for kept in history(file)] == ['durability = "fsync"\n']
    assert file.stat().st_mode & 0o777 == history(file)[0].stat().st_mode & 0o777 == 0o640
    write(file, planned(file, {"durability": "fsync"}), "1")
    assert [kept.name for kept in history(file)] == ["1-01.toml", "1-02.toml"]


def test_a_new_file_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "new.toml"
    write(path, planned(path, {"durability": "os"}), "1")
    assert path.stat().st_mode & 0o777 == 0o600
    assert history(path) == []


def test_unsound_settings_are_refused_and_change_nothing(file: Path) -> None:
    for text in ('durability = "maybe"\n', "listen = []\n", "nonsense = 1\n", "[", 'listen = ["a"]\n'):
        with pytest.raises(SettingsError) as refused:
            write(file, text, "1")
        assert str(refused.value).startswith((f"{file}: ", "listen = []")) and "\n" not in str(refused.value)
        with pytest.raises(SettingsError):
            check(file, text)
    assert read(file) == 'durability = "fsync"\n'
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_the_history_has_an_end(file: Path) -> None:
    for number in range(HISTORY_MAX + 5):
        write(file, f"# {number}\n", f"{number:03}")
    kept = history(file)
    assert len(kept) == HISTORY_MAX
    assert kept[-1].read_text() == f"# {HISTORY_MAX + 3}\n"


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"\xff")
    with pytest.raises(SettingsError, match="not UTF-8 at byte 0"):
        planned(tmp_path / "bad", {"durability": "os"})
    with pytest.raises(SettingsError, match="cannot be read"):
        read(tmp_path)
    with pytest.raises(SettingsError, match="cannot be written"):
        check(tmp_path / "nowhere" / "x.toml", "")

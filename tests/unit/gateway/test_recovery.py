"""When safe mode begins and ends, and with which settings; a real broker in it: tests/system/test_recovery.py."""

import io
from pathlib import Path

import pytest

from gateway import recovery
from gateway.log import Log
from gateway.recovery import GOOD, Recovery
from gateway.settings.table import Settings, Sources, load


class Machine:
    """A data folder, a settings file, and a clock that the test moves."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.data = folder / "data"
        self.data.mkdir()
        self.config = folder / "forebay.toml"
        self.config.write_text("mqtt.max_inflight = 7\n")
        self.now = 1000
        self.text = io.StringIO()
        self.sets: tuple[str, ...] = ("safe_mode.crashes=3", "safe_mode.within=10m")
        monkeypatch.setattr(recovery, "boottime_ms", lambda: self.now)

    def settings(self) -> Settings:
        options = (("data_dir", str(self.data)),)
        return load(Sources(self.config, self.sets, options), {})

    def start(self) -> Recovery:
        self.now += 1000
        made = Recovery(self.settings(), Log(self.text))
        made.begun()
        return made

    def crash(self, times: int) -> None:
        for _ in range(times):
            self.start()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_it_begins_after_so_many_crashes(machine: Machine) -> None:
    machine.crash(2)
    assert machine.start().report() is None
    safe = machine.start()
    assert safe.safe
    assert safe.report() == {"crashes": 3, "last_good": False, "ends_in_s": 600}
    assert "safe mode: 3 crashes within 600 s" in machine.text.getvalue()
    machine.now += 60_000
    told = safe.report()
    assert told is not None
    assert told["ends_in_s"] == 540


def test_never_is_never(machine: Machine) -> None:
    machine.sets = ("safe_mode.crashes=never",)
    machine.crash(20)
    assert not machine.start().safe


def test_it_ends_once_it_has_lasted(machine: Machine) -> None:
    machine.crash(3)
    safe = machine.start()
    assert not safe.lasted()
    machine.now += 600_000
    assert safe.lasted()
    assert not safe.lasted(), "told once"
    safe.left()
    assert safe.report() is None
    assert not machine.start().safe, "what was before is over"


def test_where_it_cannot_be_left_it_goes_on_as_long_again(machine: Machine) -> None:
    machine.crash(3)
    safe = machine.start()
    machine.now += 600_000
    assert safe.lasted()
    safe.stays("unknown key")
    assert "safe mode goes on: unknown key" in machine.text.getvalue()
    assert safe.safe and not safe.lasted()
    machine.now += 600_000
    assert safe.lasted()


def test_settings_are_good_once_a_run_with_them_has_lasted(machine: Machine) -> None:
    run = machine.start()
    assert not (machine.data / GOOD).exists()
    machine.now += 600_000
    assert run.lasted()
    assert (machine.data / GOOD).read_text() == "mqtt.max_inflight = 7\n"
    machine.config.write_text("mqtt.max_inflight = 9\n")
    machine.crash(3)
    safe = machine.start()
    assert safe.old
    assert safe.settings.mqtt_max_inflight == 7
    assert safe.settings.sources.config == machine.config, "a reload takes the file as it is"


def test_a_reload_has_to_last_anew(machine: Machine) -> None:
    run = machine.start()
    machine.now += 500_000
    machine.config.write_text("mqtt.max_inflight = 9\n")
    run.reloaded(machine.settings())
    machine.now += 500_000
    assert not run.lasted()
    machine.now += 100_000
    assert run.lasted()
    assert (machine.data / GOOD).read_text() == "mqtt.max_inflight = 9\n"


def test_safe_mode_proves_nothing_of_settings(machine: Machine) -> None:
    machine.crash(3)
    safe = machine.start()
    machine.now += 600_000
    assert safe.lasted()
    assert not (machine.data / GOOD).exists()


def test_good_settings_that_cannot_be_read_are_told(machine: Machine) -> None:
    (machine.data / GOOD).write_text("nonsense = 1\n")
    machine.crash(3)
    safe = machine.start()
    assert safe.safe and not safe.old
    assert safe.settings.mqtt_max_inflight == 7
    assert "the last good settings cannot be used" in machine.text.getvalue()


def test_who_ends_as_it_should_has_not_crashed(machine: Machine) -> None:
    machine.crash(2)
    machine.start().ended()
    assert machine.start().crashed == 0
    machine.start().withdrawn()
    assert machine.start().crashed == 1

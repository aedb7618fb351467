"""The service on a machine that is a folder: files, user and links by the real tools of systemd."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gateway.service import (
    CONFIG,
    FOLDER,
    LISTENERS,
    OWN,
    SERVICE,
    UNITS,
    Machine,
    ServiceError,
    Step,
    do,
    held,
    install,
    listening,
    uninstall,
    unit,
)
from gateway.settings.table import Settings, Sources, load

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("systemd-sysusers") is None, reason="needs root and systemd's tools"
)


class Station:
    """A system's root folder and an environment that Forebay is installed in."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        (self.root / "etc").mkdir(parents=True)
        self.machine = Machine(self.root)
        self.prefix = folder / "venv"
        (self.prefix / "bin").mkdir(parents=True)
        (self.prefix / "bin" / "forebay").touch()

    def install(self, config: Path = Path(CONFIG)) -> list[Step]:
        return self.carry_out(install(self.machine, self.prefix, Path("/usr"), config))

    def carry_out(self, steps: object) -> list[Step]:
        done = []
        for step in steps:  # type: ignore[attr-defined]
            do(step)
            done.append(step)
        return done

    def text(self, path: str | Path) -> str:
        return self.machine.at(path).read_text()


@pytest.fixture
def station(tmp_path: Path) -> Station:
    return Station(tmp_path)


def test_a_bare_root_gets_units_user_and_folders(station: Station) -> None:
    station.install()
    assert "forebay:x:5883:5883:" in station.text("etc/passwd")
    assert f"ExecStart={station.prefix}/bin/forebay run --config {CONFIG}" in station.text(OWN / SERVICE)
    data = station.machine.at("var/lib/forebay").stat()
    assert (data.st_uid, data.st_mode & 0o7777) == (5883, 0o700)
    settings = station.machine.at(CONFIG)
    assert load(Sources(settings), {}).data_dir == Path("/var/lib/forebay")
    assert (settings.stat().st_uid, settings.stat().st_mode & 0o777) == (5883, 0o640)
    keys = station.machine.at("etc/forebay/credentials").stat()
    assert (keys.st_uid, keys.st_mode & 0o777) == (0, 0o700)
    wanted = {path.name for path in station.machine.at(OWN).glob("*.wants/*")}
    assert wanted == {SERVICE, "forebay.socket", "forebay-trim.timer", "forebay-smart.timer"}


def test_what_stands_is_left_alone(station: Station) -> None:
    station.install()
    station.machine.at(CONFIG).write_text('data_dir = "/var/lib/forebay"\nlog.level = "debug"\n')
    assert station.install() == []
    assert "debug" in station.text(CONFIG)


def test_what_was_damaged_is_put_right(station: Station) -> None:
    station.install()
    station.machine.at(OWN / SERVICE).write_text("[Unit]\n")
    assert [str(step) for step in station.install()] == [f"write {station.machine.at(OWN / SERVICE)}"]
    assert "Type=notify" in station.text(OWN / SERVICE)


def test_the_socket_unit_says_what_the_settings_say(station: Station) -> None:
    station.install()
    assert station.text(LISTENERS) == "[Socket]\nListenStream=\nListenStream=127.0.0.1:1883\n"
    station.machine.at(CONFIG).write_text('data_dir = "/var/lib/forebay"\nlisten = ["0.0.0.0:1883", "[::1]:1884"]\n')
    assert [str(step) for step in station.install()] == [f"write {station.machine.at(LISTENERS)}"]
    lines = station.text(LISTENERS).splitlines()
    assert lines[2:] == ["ListenStream=0.0.0.0:1883", "ListenStream=[::1]:1884"]


def test_a_name_is_a_socket_for_each_of_its_addresses() -> None:
    settings = load(Sources(sets=("listen=localhost:1883,127.0.0.1:0", "listeners.ws=127.0.0.1:8083")), {})
    lines = set(listening(settings).splitlines()[2:])
    assert lines <= {f"ListenStream={text}" for text in ("127.0.0.1:1883", "[::1]:1883", "127.0.0.1:8083")}
    assert {"ListenStream=127.0.0.1:1883", "ListenStream=127.0.0.1:8083"} <= lines


def test_uninstalling_leaves_data_settings_and_user(station: Station) -> None:
    station.install()
    (station.machine.at("var/lib/forebay") / "forebay.db").touch()
    station.carry_out(uninstall(station.machine))
    assert [path for path in station.machine.at("etc/systemd").rglob("*") if not path.is_dir()] == []
    assert (station.machine.at("var/lib/forebay") / "forebay.db").exists()
    assert station.machine.at(CONFIG).exists()
    assert "forebay:" in station.text("etc/passwd")
    assert list(uninstall(station.machine)) == []


def test_a_package_keeps_its_units(station: Station) -> None:
    packaged = station.machine.at("lib/systemd/system")
    packaged.mkdir(parents=True)
    for name in UNITS:
        shutil.copyfile(FOLDER / name, packaged / name)
    station.machine.at(CONFIG).parent.mkdir()
    station.machine.at(CONFIG).write_text('data_dir = "/var/lib/forebay"\nlisten = ["0.0.0.0:1883"]\n')
    station.install()
    assert not station.machine.at(OWN / SERVICE).exists()
    assert "0.0.0.0:1883" in station.text(LISTENERS)
    with pytest.raises(ServiceError, match="apt remove forebay"):
        list(uninstall(station.machine))


@pytest.mark.parametrize(
    ("config", "text", "says"),
    [
        ("/etc/forebay.toml", 'data_dir = "var"', 'data_dir = "var": expected an absolute path'),
        ("/etc/forebay.toml", 'data_dir = "/home/pi/data"', "/home/pi/data: expected a place outside /home"),
        ("/root/forebay.toml", "", "/root/forebay.toml: expected a place outside /home"),
    ],
)
def test_what_the_service_could_not_see_is_refused(station: Station, config: str, text: str, says: str) -> None:
    station.machine.at(config).parent.mkdir(parents=True, exist_ok=True)
    if text:
        station.machine.at(config).write_text(text)
    with pytest.raises(ServiceError) as told:
        station.install(Path(config))
    assert says in str(told.value)
    assert "\n" not in str(told.value)


def test_an_environment_without_forebay_is_refused(station: Station) -> None:
    (station.prefix / "bin" / "forebay").unlink()
    with pytest.raises(ServiceError, match="expected an environment that Forebay is installed in"):
        station.install()


def test_a_command_that_fails_is_one_line(station: Station) -> None:
    with pytest.raises(ServiceError) as told:
        do(station.machine.systemctl("enable", "no-such.service"))
    assert str(told.value).startswith(f"systemctl --root={station.root} enable no-such.service: ")
    assert "\n" not in str(told.value)


def exposure(folder: Path, text: str) -> float:
    file = folder / SERVICE
    file.write_text(text)
    line = ["systemd-analyze", "security", "--offline=yes", "--no-pager", str(file)]
    shown = subprocess.run(line, capture_output=True, text=True, check=False).stdout
    return float(shown.splitlines()[-1].split(": ")[1].split()[0])


PLACES = [
    (Path("/opt/forebay"), Path("/usr"), Path("/var/lib/forebay"), Path(CONFIG)),
    (Path("/home/pi/forebay"), Path("/usr"), Path("/srv/data"), Path("/srv/forebay.toml")),
]


@pytest.mark.parametrize(("prefix", "base", "data_dir", "config"), PLACES)
def test_the_sandbox_is_tight_wherever_it_is(
    tmp_path: Path, prefix: Path, base: Path, data_dir: Path, config: Path
) -> None:
    text = unit(SERVICE, prefix, base, config, data_dir)
    assert exposure(tmp_path, text) <= 1.2
    assert "/opt/forebay" not in text or prefix == Path("/opt/forebay")
    assert exposure(tmp_path, text.replace("NoNewPrivileges=yes\n", "")) > 1.2  # it is measured at all


def test_an_environment_in_a_home_is_all_that_is_seen_of_it() -> None:
    text = unit(SERVICE, Path("/home/pi/env"), Path("/home/pi/python"), Path(CONFIG), Path("/srv/data"))
    assert "ProtectHome=tmpfs\nBindReadOnlyPaths=/home/pi/env /home/pi/python\n" in text
    assert "ReadWritePaths=/srv/data\n" in text
    assert "StateDirectory" not in text
    assert "WorkingDirectory=/srv/data\n" in text


def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    for name in UNITS:
        (tmp_path / name).write_text(unit(name, tmp_path, Path("/usr"), Path(CONFIG), Path("/var/lib/forebay")))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "forebay").touch(0o755)
    line = ["systemd-analyze", "verify", *(str(tmp_path / name) for name in UNITS)]
    ran = subprocess.run(line, capture_output=True, text=True, check=False)
    told = [text for text in ran.stderr.splitlines() if "forebay" in text]
    assert (ran.returncode, told) == (0, [])


def test_the_units_have_tests_of_their_settings() -> None:
    assert held("Listen=127.0.0.1:1883 (Stream)\nListen=[::1]:1883 (Stream)") == ["127.0.0.1:1883", "[::1]:1883"]
    assert held("") == []
    assert listening(None) == listening(Settings())

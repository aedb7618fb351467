"""``forebay uplink add``: it writes what is sound, leaves all as it was otherwise, and a running gateway takes it."""

import json
from pathlib import Path

import pytest

from gateway.settings.table import Sources, load
from tests.command import Forebay
from tests.harness import Broker
from tests.system.disks import until


def test_it_is_appended_to_what_is_there(forebay: Forebay, tmp_path: Path) -> None:
    path = tmp_path / "forebay.toml"
    path.write_text("# mine\n[mqtt]\nmax_inflight = 7")
    path.chmod(0o640)
    code, out, err = forebay(
        *("uplink", "add", "plant", "mqtts://a.example", "wss://b.example/x", "-c", str(path)),
        *("--out", "line/#", "--out", "alarm/+", "--in", "command/#", "--remote-prefix", "site1/", "--qos", "2"),
        *("--set", "user=gw", "--set", "password=geheim", "--set", "keep_alive=20s", "--set", "alpn=mqtt"),
    )
    assert (code, out, err) == (0, f"plant: added to {path}, used from the next start\n", "")
    settings = load(Sources(path), {})
    (row,) = settings.uplink
    assert settings.mqtt_max_inflight == 7
    assert [str(remote) for remote in row.addresses] == ["mqtts://a.example:8883", "wss://b.example:443/x"]
    rules = [(rule.direction, rule.filter, rule.local, rule.remote, rule.qos) for rule in row.rules]
    assert rules == [
        (way, what, "", "site1/", 2) for way, what in (("out", "line/#"), ("out", "alarm/+"), ("in", "command/#"))
    ]
    assert (row.user, row.password, row.keep_alive_s, row.alpn) == ("gw", "geheim", 20, ("mqtt",))
    assert path.read_text().startswith("# mine\n[mqtt]\nmax_inflight = 7")
    assert path.stat().st_mode & 0o777 == 0o640
    assert forebay("uplink", "add", "second", "mqtt://c", "--both", "x", "-c", str(path)).code == 0
    assert [row.name for row in load(Sources(path), {}).uplink] == ["plant", "second"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["forebay.toml", "forebay.toml.history"]


def test_a_new_file_is_its_owners_alone(forebay: Forebay, tmp_path: Path) -> None:
    path = tmp_path / "new.toml"
    assert forebay("uplink", "add", "plant", "mqtt://h", "--out", "#", "-c", str(path)).code == 0
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a b", "mqtt://h", "--out", "#"), 'uplink.name = "a b": expected 1 to 64'),
        (("a", "http://h", "--out", "#"), 'uplink.a.addresses = ["http://h"]: expected a list of addresses'),
        (("a", "mqtt://h"), "no rule: expected --out, --in or --both with a topic filter"),
        (("a", "mqtt://h", "--out", "a#"), 'uplink.a.rules[1].filter = "a#": expected a topic filter'),
        (("a", "mqtt://h", "--out", "#", "--set", "x=1"), "--set: x: expected KEY=VALUE with one of the keys version"),
        (("a", "mqtt://h", "--out", "#", "--set", "name"), "--set: name: expected KEY=VALUE"),
        (("a", "mqtt://h", "--out", "#", "--set", "keep_alive=x"), 'uplink.a.keep_alive = "x": expected seconds'),
        (("a", "mqtt://h", "--both", "#", "--set", "version=3.1.1"), 'uplink.a.version = "3.1.1": expected "5"'),
        (("there", "mqtt://h", "--out", "#"), 'uplink[2].name = "there": expected a name that no uplink'),
    ],
)
def test_what_is_not_sound_changes_nothing(
    forebay: Forebay, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    path = tmp_path / "forebay.toml"
    assert forebay("uplink", "add", "there", "mqtt://h", "--out", "#", "-c", str(path)).code == 0
    before = path.read_text()
    code, out, err = forebay("uplink", "add", *arguments, "-c", str(path))
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


def test_it_needs_a_file(forebay: Forebay, tmp_path: Path) -> None:
    code, _, err = forebay("uplink", "add", "a", "mqtt://h", "--out", "#")
    assert code == 2
    assert "expected --config FILE or FOREBAY_CONFIG" in err
    code, _, err = forebay("uplink", "add", "a", "mqtt://h", "--out", "#", "-c", str(tmp_path / "none" / "x.toml"))
    assert code == 2
    assert "cannot be written: No such file or directory" in err


def test_a_running_gateway_takes_it_over(forebay: Forebay, tmp_path: Path) -> None:
    path, data = tmp_path / "forebay.toml", ("--data-dir", str(tmp_path / "data"))
    path.write_text("")
    with Broker(tmp_path / "far") as far, Broker(tmp_path / "data", arguments=["-c", str(path)]):
        code, out, _ = forebay(
            "uplink", "add", "far", f"mqtt://127.0.0.1:{far.port}", "--out", "#", "-c", str(path), *data
        )
        assert (code, out) == (0, f"far: added to {path}, in use\n")

        def forwards() -> bool:
            return [row["state"] for row in json.loads(forebay("uplink", "list", "--json", *data).out)] == [
                "forwarding"
            ]

        until(forwards, "the link", 30)
        other = tmp_path / "other.toml"
        out = forebay("uplink", "add", "x", "mqtt://h", "--out", "#", "-c", str(other), *data).out
        assert out == f"x: added to {other}, but the running broker reads other settings\n"

"""``forebay profile``: list, show, check, match."""

import json
import tomllib
from pathlib import Path

from gateway.profiles import DEVICES, as_toml
from tests.command import Forebay

OWN = {
    "name": "acme-press",
    "title": "Acme press",
    "identity": {"vendor": "Acme", "model": "Press", "firmware": "any"},
    "match": {"topic": ["plant/press-*"]},
    "evidence": {
        "date": "2026-11-30", "method": "probe", "verdict": "qos1_ram", "confidence": "high", "source": ["probe"],
        "expires_on_firmware_change": True, "fallback": "ingest",
    },
    "upgrade": {"possible": True, "text": "It is set."},
}  # fmt: skip


def own(tmp_path: Path, text: str, name: str = "acme-press") -> Path:
    folder = tmp_path / "data" / "profiles"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.toml").write_text(text)
    return folder / f"{name}.toml"


def test_list_has_ours_and_the_operators_own(forebay: Forebay, tmp_path: Path) -> None:
    own(tmp_path, as_toml(OWN))
    data = ("--data-dir", str(tmp_path / "data"))
    code, out, err = forebay("profile", "list", *data)
    assert (code, err) == (0, "")
    rows = {line.split()[0]: line for line in out.splitlines()[1:]}
    assert set(rows) == {path.stem for path in DEVICES.glob("*.toml")} | {"acme-press"}
    assert "qos1_ram" in rows["acme-press"] and rows["acme-press"].split()[-1] == "own"
    assert "qos0_native_sf" in rows["cirruslink-mqtt-transmission"]
    listed = json.loads(forebay("profile", "list", *data, "--json").out)
    assert {row["name"]: row["own"] for row in listed}["acme-press"] is True
    assert sum(row["own"] for row in listed) == 1


def test_a_faulty_own_profile_is_told_and_set_aside(forebay: Forebay, tmp_path: Path) -> None:
    path = own(tmp_path, as_toml({**OWN, "title": ""}))
    code, out, err = forebay("profile", "list", "--data-dir", str(tmp_path / "data"))
    assert code == 0
    assert "acme-press" not in out
    assert err == f'forebay: {path}: title: "": expected text of at least 1 character: set aside\n'


def test_show_prints_the_file(forebay: Forebay) -> None:
    code, out, _ = forebay("profile", "show", "emqx-neuron")
    assert code == 0
    assert tomllib.loads(out)["identity"]["vendor"] == "EMQ"
    assert out.startswith(f"# {DEVICES / 'emqx-neuron.toml'}\n")
    assert json.loads(forebay("profile", "show", "emqx-neuron", "--json").out)["native"]["available"] is True
    code, out, err = forebay("profile", "show", "none")
    assert (code, out) == (2, "")
    assert "none is no profile: expected one of advantech-adam" in err


def test_check_tells_each_fault_in_a_line(forebay: Forebay, tmp_path: Path) -> None:
    good = own(tmp_path, as_toml(OWN))
    assert forebay("profile", "check", str(good)) == (0, f"{good}: sound\n", "")
    bad = own(tmp_path, as_toml({**OWN, "name": "bad", "upgrade": {"possible": 1}}), "bad")
    code, out, err = forebay("profile", "check", str(bad), str(good))
    assert (code, out) == (2, f"{good}: sound\n")
    assert err.splitlines() == [
        f"forebay: {bad}: upgrade.text: missing: expected text of at least 1 character",
        f"forebay: {bad}: upgrade.possible: 1: expected true or false",
    ]
    assert forebay("profile", "check", str(tmp_path / "none.toml")).code == 2


def test_match_finds_by_what_is_known(forebay: Forebay, tmp_path: Path) -> None:
    own(tmp_path, as_toml(OWN))
    data = ("--data-dir", str(tmp_path / "data"))
    found = forebay("profile", "match", "--topic", "spBv1.0/plant/DBIRTH/press-1/pump", *data)
    assert found == (0, "acme-press: qos1_ram, confidence high, fits by topic\n", "")
    both = forebay("profile", "match", "--topic", "plant/press-1", "--make", "Moxa", *data, "--json")
    assert [(row["name"], row["by"]) for row in json.loads(both.out)] == [
        ("acme-press", ["topic"]),
        ("moxa-aig", ["make"]),
    ]
    assert forebay("profile", "match", "--client-id", "nobody", *data) == (1, "", "forebay: no profile fits\n")
    assert forebay("profile", "match", *data).code == 2
    code, _, err = forebay("profile", "match", "--topic", "plant", *data)
    assert code == 2
    assert "--topic plant: expected" in err

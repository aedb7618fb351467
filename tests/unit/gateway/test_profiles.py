"""Device profiles: ours, reading with every fault told in a line, an operator's own, matching, writing."""

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gateway import profiles
from gateway.profiles import DEVICES, Profile, ProfileError, as_toml, load, match, parse, read

FAMILIES = {
    "advantech-adam", "aiospb-aiospb", "autosol-edge-acm", "beckhoff-twincat", "cirruslink-mqtt-transmission",
    "cirruslink-sparkplug-client", "eclipse-tahu-c", "eclipse-tahu-java", "eclipse-tahu-python", "emqx-neuron",
    "influxdata-sparkplug-publisher", "javierfernandez-mqtt-spb-wrapper", "matteosox-pysparkplug",
    "mattcurf-esp32-sparkplug", "moxa-aig", "nodered-sparkplug-plus", "opto22-groov",
    "phoenixcontact-plcnext-gateway", "siemens-simatic", "tatsoft-mqttspb", "wago-pfc",
}  # fmt: skip
MINIMAL: dict[str, Any] = {
    "name": "acme-press",
    "title": "Acme press",
    "identity": {"vendor": "Acme", "model": "Press", "firmware": "any"},
    "match": {"make": ["acme*"]},
    "evidence": {
        "date": "2026-11-30", "method": "probe", "verdict": "qos1_ram", "confidence": "high", "source": ["probe"],
        "expires_on_firmware_change": True, "fallback": "ingest", "firmware_seen": "1.0",
    },
    "upgrade": {
        "possible": True, "text": 'Set "QoS" to 1.', "ncmd": {"metric": "QoS", "datatype": "Int32", "value": 1},
    },
}  # fmt: skip


def changed(**sections: dict[str, Any]) -> dict[str, Any]:
    return {**MINIMAL, **{name: {**MINIMAL.get(name, {}), **values} for name, values in sections.items()}}


def write(folder: Path, values: dict[str, Any], name: str = "acme-press") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.toml"
    path.write_text(as_toml(values), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def ours() -> dict[str, Profile]:
    found, faults = load()
    assert faults == []
    return found


def test_every_family_has_a_profile(ours: dict[str, Profile]) -> None:
    assert set(ours) == FAMILIES
    assert not any(profile.own for profile in ours.values())


@pytest.mark.parametrize("path", sorted(DEVICES.glob("*.toml")), ids=lambda path: path.stem)
def test_ours_are_valid_to_the_jsonschema_library(path: Path) -> None:
    jsonschema.Draft202012Validator(profiles.schema()).validate(tomllib.loads(path.read_text(encoding="utf-8")))


def test_ours_say_where_they_have_it_from(ours: dict[str, Profile]) -> None:
    for profile in ours.values():
        evidence = profile.evidence
        assert evidence.source, profile.name
        if evidence.method == "none":
            assert (evidence.verdict, evidence.confidence) == ("unknown", "none"), profile.name
            assert "probe" in profile.upgrade.text, profile.name
        if profile.native.available:
            assert profile.native.how, profile.name
        if evidence.fallback == "native":
            assert profile.native.available, profile.name


def test_the_types_have_the_fields_of_the_schema() -> None:
    properties = profiles.schema()["properties"]
    assert {field.name for field in dataclasses.fields(Profile)} - {"path"} == set(properties)
    kinds = {**profiles._SECTIONS, "upgrade": profiles.Upgrade}
    for name, kind in kinds.items():
        assert {field.name for field in dataclasses.fields(kind)} == set(properties[name]["properties"]), name
    ncmd = properties["upgrade"]["properties"]["ncmd"]["properties"]
    assert {field.name for field in dataclasses.fields(profiles.Ncmd)} == set(ncmd)


def test_a_profile_is_read_as_it_was_written(tmp_path: Path) -> None:
    values = changed(
        transport={"qos": {"NDATA": 1}, "clean": False, "keep_alive_s": 30}, retry={"queue": "ram", "resends": True}
    )
    profile = read(write(tmp_path, values))
    assert profile == dataclasses.replace(parse(values), path=tmp_path / "acme-press.toml")
    assert (profile.transport.qos, profile.transport.clean, profile.retry.resends) == ({"NDATA": 1}, False, True)
    assert profile.upgrade.text == 'Set "QoS" to 1.'
    assert profile.upgrade.ncmd == profiles.Ncmd(metric="QoS", datatype="Int32", value=1)
    assert profile.match.make == ("acme*",)
    assert profile.own


def test_a_date_may_be_a_date(tmp_path: Path) -> None:
    path = write(tmp_path, MINIMAL)
    path.write_text(path.read_text().replace('"2026-11-30"', "2026-11-30"))
    assert read(path).evidence.date == "2026-11-30"


@pytest.mark.parametrize(
    ("values", "key", "expected"),
    [
        (changed(evidence={"verdict": "qos3"}), "evidence.verdict", "expected one of qos1_persistent, qos1_ram"),
        (changed(evidence={"date": "yesterday"}), "evidence.date", "expected text like"),
        (changed(transport={"qos": {"NDATA": 3}}), "transport.qos.NDATA", "expected a whole number from 0 to 2"),
        (changed(retry={"resend": True}), "retry.resend", "expected one of resends"),
        (changed(match={"make": "acme"}), "match.make", "expected a list"),
        (changed(match={"topic": ["a/b/c"]}), "match.topic[0]", "expected text like"),
        ({**MINIMAL, "name": "other"}, "name", 'expected "acme-press", as the file is called'),
        ({name: value for name, value in MINIMAL.items() if name != "upgrade"}, "upgrade", "expected a table"),
    ],
)
def test_a_fault_names_file_key_and_what_is_expected(
    tmp_path: Path, values: dict[str, Any], key: str, expected: str
) -> None:
    path = write(tmp_path, values)
    with pytest.raises(ProfileError) as caught:
        read(path)
    (fault,) = caught.value.faults
    assert fault.startswith(f"{path}: {key}: ")
    assert expected in fault
    assert "\n" not in fault


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"name = ", "expected a TOML file"),
        (b"\xff\xfe", "not UTF-8 at byte 0"),
        (b"a = " + b"[" * 100_000, "expected a TOML file"),
        (b"a = " + b"9" * 5000, "expected a TOML file"),
        (b"#" * (profiles.FILE_BYTES_MAX + 1), "larger than expected"),
    ],
)
def test_what_is_no_profile_at_all_is_one_line(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(data)
    with pytest.raises(ProfileError) as caught:
        read(path)
    (fault,) = caught.value.faults
    assert fault.startswith(f"{path}: ")
    assert said in fault
    assert "\n" not in fault


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(ProfileError, match="cannot be read"):
            read(path)


def test_an_operators_own_wins_by_name_and_a_bad_one_is_set_aside(tmp_path: Path) -> None:
    own = tmp_path / "profiles"
    write(own, {**MINIMAL, "name": "emqx-neuron", "title": "Ours, probed"}, "emqx-neuron")
    write(own, changed(evidence={"verdict": "best"}))
    found, faults = load(own)
    assert set(found) == FAMILIES
    assert (found["emqx-neuron"].title, found["emqx-neuron"].own) == ("Ours, probed", True)
    assert len(faults) == 1 and faults[0].startswith(f"{own / 'acme-press.toml'}: evidence.verdict: ")


def best(profiles_: dict[str, Profile], **facts: str) -> list[str]:
    return [one.profile.name for one in match(profiles_.values(), **facts)]


def test_devices_are_found_by_what_they_say(ours: dict[str, Profile]) -> None:
    assert best(ours, client_id="MT-1a2b3c4d-1a2b-3c4d") == ["cirruslink-mqtt-transmission"]
    assert best(ours, make="Siemens AG", model="S7-1500") == ["siemens-simatic"]
    assert best(ours, make="OPTO 22", model="GRV-EPIC-PR2") == ["opto22-groov"]
    assert best(ours, client_id="press-1", make="Acme") == []
    assert best(ours) == []


def test_every_profile_is_found_by_its_own_rules(ours: dict[str, Profile]) -> None:
    for profile in ours.values():
        rules = profile.match
        facts = {
            kind: patterns[0].replace("*", "").replace("?", "0")
            for kind in ("client_id", "make", "model")
            if (patterns := getattr(rules, kind))
        }
        assert profile.name in best(ours, **facts), facts


def test_more_telling_rules_win_and_another_model_is_another_device() -> None:
    by_make = parse({**MINIMAL, "name": "a", "match": {"make": ["acme*"]}})
    by_model = parse({**MINIMAL, "name": "b", "match": {"make": ["acme*"], "model": ["press*"]}})
    by_topic = parse({**MINIMAL, "name": "c", "match": {"topic": ["plant/*"]}})
    by_id = parse({**MINIMAL, "name": "d", "match": {"client_id": ["p[1]*"]}})
    profiles_ = {profile.name: profile for profile in (by_make, by_model, by_topic, by_id)}
    assert best(profiles_, make="ACME", model="Press 9") == ["b", "a"]
    assert best(profiles_, make="ACME", model="Lathe") == ["a"]
    assert best(profiles_, make="ACME", topic="plant/x", client_id="p[1]x") == ["c", "a", "b", "d"]
    assert best(profiles_, client_id="p1x") == [], "a bracket stands for itself"


def test_among_equals_the_operators_goes_first(tmp_path: Path) -> None:
    mine = read(write(tmp_path, {**MINIMAL, "name": "z"}, "z"))
    theirs = parse({**MINIMAL, "name": "a"})
    theirs = dataclasses.replace(theirs, path=DEVICES / "a.toml")
    assert [one.profile.name for one in match([theirs, mine], make="Acme")] == ["z", "a"]


def test_evidence_expires_with_another_firmware() -> None:
    profile = parse(MINIMAL)
    assert profile.expired("1.1")
    assert not profile.expired("1.0")
    assert not profile.expired(""), "what is not known has not changed"
    assert not parse(changed(evidence={"expires_on_firmware_change": False})).expired("1.1")


def test_what_is_written_is_toml() -> None:
    values = {"name": "a", "text": 'quote " and \\ and\nline', "n": {"list": ["x", "y"], "on": True, "none": {}}}
    assert tomllib.loads(as_toml(values)) == values

"""From findings to verdict, evidence and profile."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from gateway.bridge.outage import Outage
from gateway.bridge.probe import Findings
from gateway.bridge.verdict import draft, judge
from gateway.profiles import Profile, as_toml, read, schema
from gateway.schema import check
from tests.unit.gateway.bridge.lab import Lab, Policy

FULL = Outage(away_ms=60_000, made=100, missing=0, late=90)
LOST = Outage(away_ms=60_000, made=100, missing=90, late=0)


def findings(qos: int = 1, **fields: Any) -> Findings:
    return Findings(qos={"NBIRTH": 0, "NDATA": qos}, counter="n", interval_ms=100, **fields)


@pytest.mark.parametrize(
    ("found", "verdict", "confidence"),
    [
        (findings(unacked=3, resent=3, outage=FULL), "qos1_ram", "high"),
        (findings(unacked=3, resent=3, outage=FULL, reboot=FULL), "qos1_persistent", "high"),
        (findings(unacked=3, resent=3, outage=FULL, reboot=LOST), "qos1_ram", "high"),
        (findings(unacked=3, resent=3, outage=Outage(idle=True)), "qos1_ram", "medium"),
        (findings(unacked=3, resent=3, outage=Outage(idle=True), reboot=Outage()), "qos1_ram", "medium"),
        (findings(unacked=3, resent=3), "qos1_ram", "medium"),
        (findings(unacked=3, resent=2, outage=FULL), "qos1_no_retry", "high"),
        (findings(unacked=3, resent=3, outage=LOST), "qos1_no_retry", "high"),
        (findings(outage=FULL), "unknown", "low"),
        (findings(0, outage=FULL), "qos0_native_sf", "high"),
        (findings(0, outage=Outage(made=100, missing=2, late=88)), "qos0_native_sf", "high"),
        (findings(0, outage=Outage(made=100, missing=50, late=40)), "qos0_lossy", "high"),
        (findings(0, outage=Outage(late=5, historical=5)), "qos0_native_sf", "high"),
        (findings(0, outage=Outage(late=5)), "qos0_lossy", "low"),
        (findings(0), "qos0_lossy", "low"),
        (Findings(), "unknown", "none"),
        (findings(0, failed="it left"), "unknown", "none"),
    ],
)
def test_the_verdict(found: Findings, verdict: str, confidence: str) -> None:
    judged = judge(found)
    assert (judged.verdict, judged.confidence) == (verdict, confidence)


def test_the_evidence_tells_each_step_in_a_line() -> None:
    found = findings(
        unacked=3, resent=3, resent_dup=False, replay_order="before_birth", outage=LOST, noticed_ms=4_500,
        half_open=Outage(away_ms=4_500, late=2), reboot=FULL,
        overflow=Outage(away_ms=3_600_000, late=50, missing=9, dropped="oldest"), skipped={"half_open": "x"},
        failed="y",
    )  # fmt: skip
    assert judge(found).evidence == (
        "data at QoS 1, usually each 100 ms; judged by counter n",
        "3 of 3 unacknowledged messages came again, without DUP, before birth",
        "outage of 60.0 s: 90 of 100 lost",
        "half-open link of 4.5 s: 2 messages of it came afterwards, of an unknown number",
        "it left a dead link after 4.5 s",
        "restart in an outage: what was stored came afterwards",
        "outage of 3600 s: 50 kept, the oldest were dropped",
        "half-open not tried: x",
        "ended early: y",
    )


def drafted(tmp_path: Path, lab: Lab, node: str = "Plant 1/Press_2") -> Profile:
    found = lab.probe.findings
    values = draft(node, found, judge(found), {}, False, "2026-11-30")
    assert [str(fault) for fault in check(values, schema())] == []
    path = tmp_path / f"{values['name']}.toml"
    path.write_text(as_toml(values), encoding="utf-8")
    assert tomllib.loads(path.read_text(encoding="utf-8"))["name"] == values["name"]
    return read(path)


def test_a_draft_is_a_profile_that_fits_the_node(tmp_path: Path) -> None:
    lab = Lab(Policy(queue="disk"))
    profile = drafted(tmp_path, lab)
    assert (profile.name, profile.match.topic) == ("plant-1-press-2", ("Plant 1/Press_2",))
    assert (profile.identity.vendor, profile.evidence.firmware_seen) == ("not said", None)
    assert (profile.evidence.method, profile.evidence.verdict) == ("probe", "qos1_persistent")
    assert profile.transport.qos == {"NBIRTH": 0, "NDATA": 1}
    assert (profile.transport.keep_alive_s, profile.transport.client_id_stable) == (2, True)
    retry = profile.retry
    assert (retry.resends, retry.sets_dup, retry.replay_order) == (True, True, "after_birth")
    assert (retry.queue, retry.survives_reboot) == ("disk", True)
    assert (profile.session.bdseq_matches, profile.session.bdseq_type) == (True, "Int64")
    assert (profile.session.seq_given, profile.session.seq_gaps_after_outage) == ("send", False)
    assert not profile.native.available
    assert profile.upgrade.possible


def test_a_draft_of_one_that_stores_by_itself(tmp_path: Path) -> None:
    profile = drafted(tmp_path, Lab(Policy(qos=0, historical=True)))
    native = profile.native
    assert (native.available, native.is_historical, native.original_timestamps) == (True, True, True)
    assert (native.order, native.covers_keep_alive) == ("history_first", False)
    assert (profile.evidence.fallback, profile.upgrade.possible) == ("native", False)
    covers = drafted(tmp_path, Lab(Policy(qos=0, historical=True, covers=True)))
    assert covers.native.covers_keep_alive is True


def test_a_draft_says_who_the_device_is(tmp_path: Path) -> None:
    found = Lab(Policy()).probe.findings
    properties = {
        "Properties/Hardware Make": "Acme", "Properties/Hardware Model": "Press", "Properties/Firmware Version": "1.2",
    }  # fmt: skip
    values = draft("g/*", found, judge(found), properties, True, "2026-11-30")
    assert values["identity"] == {"vendor": "Acme", "model": "Press", "firmware": "1.2"}
    assert values["evidence"]["firmware_seen"] == "1.2"
    assert values["codec"] == {"aliases": True}
    assert (values["name"], values["match"]) == ("g", {"topic": ["g/?"]})
    values = draft("漢/字", found, judge(found), {}, False, "2026-11-30")
    assert values["name"] == "node"

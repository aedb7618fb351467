"""The ladder: for each kind of node the step that holds, the reason, what remains and what to set."""

from typing import Any

import pytest

from gateway.bridge.facts import LossWindow, NodeFacts
from gateway.bridge.ladder import VERDICTS, Probed, Standing, Step, outcome, stand
from gateway.profiles import Ncmd, Profile, load, parse, schema

NCMD = {"metric": "Properties/QoS", "datatype": "Int32", "value": 1}


def profile(verdict: str = "unknown", **sections: dict[str, Any]) -> Profile:
    values: dict[str, Any] = {
        "name": "acme-press",
        "title": "Acme press",
        "identity": {"vendor": "Acme", "model": "Press", "firmware": "any"},
        "match": {},
        "evidence": {
            "date": "2026-11-30", "method": "documentation", "verdict": verdict, "confidence": "high", "source": [],
            "expires_on_firmware_change": True, "fallback": "ingest", "firmware_seen": "1.0",
        },
        "upgrade": {"possible": False, "text": "There is no such setting."},
    }  # fmt: skip
    for name, section in sections.items():
        values[name] = {**values.get(name, {}), **section}
    return parse(values)


def saw(seen: NodeFacts, message_type: str, qos: int) -> None:
    seen.qos.setdefault(message_type, [0, 0, 0])[qos] += 1


def facts(qos: int | None = None, **known: Any) -> NodeFacts:
    seen = NodeFacts("plant/press", **known)
    if qos is not None:
        saw(seen, "DDATA", qos)
    return seen


def steps(standing: Standing) -> list[Step]:
    return [advice.to for advice in standing.advice]


def test_nothing_known_is_ingest_and_a_probe_is_advised() -> None:
    standing = stand(None, None, None)
    assert (standing.step, standing.verdict, standing.source) == (Step.INGEST, "unknown", "nothing")
    assert "probe" in standing.advice[-1].text
    assert "into a dead link" in standing.remains


@pytest.mark.parametrize("verdict", ["qos1_persistent", "qos1_ram"])
def test_a_probe_that_saw_it_send_again_puts_it_on_the_first_step(verdict: str) -> None:
    standing = stand(None, facts(1), Probed(verdict, "2026-11-30"))
    assert (standing.step, standing.source, standing.advice) == (Step.DEVICE, "probe", ())
    assert ("reboot" in standing.remains) == (verdict == "qos1_ram")


def test_so_does_a_message_that_came_again_on_the_wire() -> None:
    standing = stand(None, facts(1, resends=2), None)
    assert (standing.step, standing.verdict, standing.source) == (Step.DEVICE, "qos1_ram", "wire")


def test_a_qos_1_header_alone_proves_nothing() -> None:
    standing = stand(profile("qos1_ram"), facts(1), None)
    assert standing.step is Step.INGEST
    assert any("only the profile" in reason for reason in standing.why)
    standing = stand(None, facts(1), None)
    assert standing.step is Step.INGEST
    assert any("no message was seen to come again" in reason for reason in standing.why)


def test_data_at_qos_0_takes_a_probed_node_down_again() -> None:
    """The setting was taken back, or never held: what comes on the wire counts."""
    upgradable = profile(upgrade={"possible": True, "text": "Set QoS to 1.", "ncmd": NCMD})
    standing = stand(upgradable, facts(0), Probed("qos1_ram", "2026-11-30"))
    assert standing.step is Step.INGEST
    assert "data comes at QoS 0" in standing.why[0]
    assert standing.advice[0].to is Step.DEVICE
    assert (standing.advice[0].text, standing.advice[0].ncmd) == (
        "Set QoS to 1.",
        Ncmd(metric="Properties/QoS", datatype="Int32", value=1),
    )


def test_an_upgrade_that_is_set_is_not_advised_again() -> None:
    upgradable = profile("unknown", upgrade={"possible": True, "text": "Set QoS to 1."})
    assert Step.DEVICE in steps(stand(upgradable, facts(0), Probed("qos0_lossy", "2026-11-30")))
    assert Step.DEVICE not in steps(stand(upgradable, facts(1), Probed("qos1_no_retry", "2026-11-30")))


def test_native_store_and_forward_must_be_seen() -> None:
    native = {"available": True, "trigger": ["primary_host"], "how": "Switch the store on."}
    promised = stand(profile("qos0_native_sf", native=native), facts(0), None, host_id="forebay")
    assert promised.step is Step.INGEST
    assert promised.advice[0].to is Step.NATIVE
    assert promised.advice[0].text == "Switch the store on. The gateway's id is forebay."
    seen = stand(profile("qos0_native_sf", native=native), facts(0, historical=9, keep_alive_s=30), None)
    assert (seen.step, seen.source) == (Step.NATIVE, "wire")
    assert Step.NATIVE not in steps(seen)
    assert "45 s (1.5 x keep alive)" in seen.remains
    probed = stand(None, facts(0), Probed("qos0_native_sf", "2026-11-30"))
    assert (probed.step, probed.source) == (Step.NATIVE, "probe")
    covered = profile(native={**native, "covers_keep_alive": True})
    assert stand(covered, facts(0, historical=1), None).remains == "what its store has no room for"


def test_holes_lead_down_to_rebirth_and_from_there_to_the_keep_alive() -> None:
    assert stand(None, facts(0, seq_gaps=2), None).step is Step.REBIRTH
    assert stand(None, facts(0, seq_gaps=2, rebirths_asked=3, rebirths_answered=2), None).step is Step.REBIRTH
    silent = stand(None, facts(0, seq_gaps=2, rebirths_asked=3), None)
    assert silent.step is Step.KEEP_ALIVE
    assert silent.why[-1] == "it answers no rebirth"
    assert stand(profile(session={"rebirth": False}), facts(0, seq_gaps=1), None).step is Step.KEEP_ALIVE


def test_loss_windows_are_told() -> None:
    lossy = facts(0)
    lossy.lost(LossWindow(1, 2, "connection"))
    standing = stand(None, lossy, None)
    assert standing.step is Step.INGEST
    assert "stretches of time in which messages may have been lost: 1" in standing.why


def test_a_long_keep_alive_is_advised_against() -> None:
    for seconds, advised in ((60, True), (5, False), (0, True), (None, False)):
        standing = stand(None, facts(0, keep_alive_s=seconds), Probed("qos0_lossy", "2026-11-30"))
        assert (Step.KEEP_ALIVE in steps(standing)) == advised, seconds
    least = stand(profile(transport={"keep_alive_min_s": 20}), facts(0, keep_alive_s=60), None)
    text = next(advice.text for advice in least.advice if advice.to is Step.KEEP_ALIVE)
    assert "20 s" in text and "90 s" in text
    assert Step.KEEP_ALIVE not in steps(stand(None, facts(1, keep_alive_s=60), Probed("qos1_ram", "2026-11-30")))


def test_evidence_of_another_firmware_does_not_count() -> None:
    old = stand(profile("qos1_ram"), facts(1, firmware="2.0"), Probed("qos1_ram", "2026-11-30", "1.0"))
    assert (old.step, old.verdict, old.source) == (Step.INGEST, "unknown", "nothing")
    assert old.why[0] == "the probe of 2026-11-30 was on firmware 1.0, now it is 2.0"
    assert "speaks of firmware 1.0, now it is 2.0" in old.why[1]
    same = stand(None, facts(1, firmware="1.0"), Probed("qos1_ram", "2026-11-30", "1.0"))
    assert same.step is Step.DEVICE


def test_every_one_of_ours_has_a_standing() -> None:
    for one in load()[0].values():
        for seen in (None, facts(0), facts(1), facts(0, seq_gaps=1, historical=1, keep_alive_s=60)):
            standing = stand(one, seen, None)
            assert standing.why and standing.remains, one.name
            assert standing.step is not Step.DEVICE, "a profile alone never says that a device sends again"


def test_the_verdicts_are_those_of_the_schema() -> None:
    assert list(VERDICTS) == schema()["properties"]["evidence"]["properties"]["verdict"]["enum"]


def test_an_upgrade_is_judged_by_what_came_since() -> None:
    before = facts(0)
    saw(before, "NDATA", 0)
    after = NodeFacts.from_dict(before.as_dict())
    assert outcome(before, after, 2) == (None, "0 of 2 messages came since")
    saw(after, "DDATA", 1)
    assert outcome(before, after, 2)[0] is None
    saw(after, "NDATA", 1)
    assert outcome(before, after, 2) == (True, "all 2 messages came at QoS 1 or 2")
    saw(after, "NDATA", 0)
    assert outcome(before, after, 2) == (False, "1 of 3 messages still came at QoS 0")

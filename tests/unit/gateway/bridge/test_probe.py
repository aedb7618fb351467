"""The probe's steps against devices of every verdict, in virtual time."""

import dataclasses

import pytest

from gateway.bridge.probe import STEPS, Ask
from gateway.bridge.verdict import Judged, judge
from tests.unit.gateway.bridge.lab import SHORT, Lab, Policy

NATIVE = Policy(qos=0, historical=True)
LOSSY = Policy(qos=0, queue="none")


def judged(lab: Lab) -> Judged:
    return judge(lab.probe.findings)


@pytest.mark.parametrize(
    ("policy", "verdict", "confidence"),
    [
        (Policy(), "qos1_ram", "high"),
        (Policy(dup=False, before_birth=True, seq_given="enqueue"), "qos1_ram", "high"),
        (Policy(speaks_in_ms=4_000), "qos1_ram", "high"),  # longer than it takes for a replay to be over
        (Policy(queue="disk"), "qos1_persistent", "high"),
        (Policy(queue="disk", resets=True), "qos1_persistent", "high"),
        (Policy(queue="disk", boots_in_ms=20_000), "qos1_persistent", "high"),
        (Policy(resets=True), "qos1_ram", "high"),
        (Policy(resends=False, queue="none"), "qos1_no_retry", "high"),
        (Policy(queue="none"), "qos1_no_retry", "high"),  # it sends again, but makes nothing while it is away
        (NATIVE, "qos0_native_sf", "high"),
        (dataclasses.replace(NATIVE, counter=False), "qos0_native_sf", "medium"),
        (Policy(qos=0), "qos0_native_sf", "high"),  # without a flag, by the counter alone
        (LOSSY, "qos0_lossy", "high"),
        (dataclasses.replace(LOSSY, counter=False), "qos0_lossy", "medium"),
        (Policy(counts_while_away=False, queue="none"), "qos1_ram", "medium"),
        (dataclasses.replace(LOSSY, counts_while_away=False), "qos0_lossy", "low"),
        (dataclasses.replace(LOSSY, others=5), "qos0_lossy", "high"),
        (dataclasses.replace(NATIVE, others=5), "qos0_native_sf", "high"),
    ],
    ids=str,
)
def test_each_kind_of_device_gets_its_verdict(policy: Policy, verdict: str, confidence: str) -> None:
    lab = Lab(policy)
    got = judged(lab)
    assert (got.verdict, got.confidence) == (verdict, confidence), got.evidence
    assert lab.done[-3:] == ["revive", "admit", "release"]
    assert not (lab.device.refused or lab.device.withheld or lab.device.dead_since >= 0)


def test_it_asks_first_and_does_nothing_without_leave() -> None:
    lab = Lab(Policy(), answer=lambda _: False)
    assert len(lab.asked) == 1
    assert lab.done == []
    assert judged(lab) == Judged("unknown", "none", ("ended early: it was not allowed",))


def test_no_restart_by_hand_leaves_that_step_out() -> None:
    lab = Lab(Policy(queue="disk"), answer=lambda question: not question.by_hand)
    assert [question.by_hand for question in lab.asked] == [False, True]
    assert lab.probe.findings.reboot is None
    assert lab.probe.findings.skipped == {"reboot": "nobody restarted the device"}
    assert judged(lab).verdict == "qos1_ram"


def test_acknowledgements_what_came_again_and_how() -> None:
    found = Lab(Policy()).probe.findings
    assert (found.unacked, found.resent, found.resent_dup, found.replay_order) == (3, 3, True, "after_birth")
    found = Lab(Policy(dup=False, before_birth=True)).probe.findings
    assert (found.resent, found.resent_dup, found.replay_order) == (3, False, "before_birth")
    found = Lab(Policy(resends=False)).probe.findings
    assert (found.unacked, found.resent, found.resent_dup) == (3, 0, None)


def test_at_qos_0_nothing_is_kept_back() -> None:
    lab = Lab(LOSSY)
    assert "withhold" not in lab.done
    assert "acknowledge" in lab.probe.findings.skipped


def test_the_outage_is_longer_than_one_and_a_half_keep_alives() -> None:
    plan = dataclasses.replace(SHORT, steps=("outage",))
    for keep_alive_s, least in ((2, 5_000), (10, 16_000)):
        outage = Lab(Policy(keep_alive_s=keep_alive_s), plan).probe.findings.outage
        assert outage is not None
        assert least <= outage.away_ms < least + 1_000


def test_a_dead_link_is_noticed_or_not() -> None:
    plan = dataclasses.replace(SHORT, steps=("half_open",))
    found = Lab(Policy(), plan).probe.findings
    assert found.noticed_ms is not None and 3_000 <= found.noticed_ms < 4_500
    assert found.half_open is not None and found.half_open.missing == 0
    found = Lab(LOSSY, plan).probe.findings
    assert found.half_open is not None and (found.half_open.missing or 0) > 10
    lab = Lab(Policy(notices=False), plan)
    assert lab.probe.findings.noticed_ms is None
    assert "did not notice" in lab.probe.findings.skipped["half_open"]
    assert lab.device.up


@pytest.mark.parametrize("drops", ["oldest", "newest"])
def test_overflow_tells_size_and_policy(drops: str) -> None:
    plan = dataclasses.replace(SHORT, steps=("outage", "overflow"))
    lab = Lab(Policy(capacity=50, drops=drops), plan)
    overflow = lab.probe.findings.overflow
    assert overflow is not None
    assert overflow.dropped == drops
    assert 45 <= overflow.late <= 50
    assert lab.asked[-1] == Ask("Turn it away for 60 s, to see how much it keeps?")


def test_overflow_is_asked_for_by_itself() -> None:
    lab = Lab(Policy(), dataclasses.replace(SHORT, steps=STEPS), answer=lambda question: "keeps" not in question.text)
    assert lab.probe.findings.overflow is None
    assert lab.probe.findings.skipped["overflow"] == "it was not allowed"


def test_facts_of_the_connection_are_noted() -> None:
    found = Lab(Policy(), dataclasses.replace(SHORT, steps=())).probe.findings
    assert found.connect is not None and found.connect.keep_alive_s == 2
    assert (found.data_qos(), found.counter, found.client_ids) == (1, "Counter", {"press"})
    assert (found.bdseq_matches, found.bdseq_type, found.qos) == (True, 4, {"NBIRTH": 0, "NDATA": 1})
    assert 150 <= found.interval_ms <= 250


def test_a_device_that_stays_away_ends_the_probe() -> None:
    lab = Lab(Policy(comes_back=False))
    assert lab.probe.findings.failed == "it did not come back within 30 s"
    assert lab.done == ["cut", "revive", "admit", "release"]
    assert judged(lab).verdict == "unknown"


def test_too_little_data_ends_it_too() -> None:
    lab = Lab(Policy(interval_ms=15_000))
    assert "too few" in lab.probe.findings.failed
    assert judged(lab).verdict == "unknown"


def test_a_counter_that_is_named_must_be_there() -> None:
    lab = Lab(Policy(), dataclasses.replace(SHORT, counter="Level", steps=()))
    assert lab.probe.findings.counter == "Level"


def test_the_interval_is_that_of_the_counter() -> None:
    lab = Lab(Policy(others=3), dataclasses.replace(SHORT, steps=()))
    assert 150 <= lab.probe.findings.interval_ms <= 250


def test_a_counter_that_is_not_there_ends_it() -> None:
    lab = Lab(Policy(), dataclasses.replace(SHORT, counter="None"))
    assert lab.probe.findings.failed == "no data with the counter None came"

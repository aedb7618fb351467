import pytest

from sparkplug.check.verdicts import Finding, Outcome, Verdicts


def finding(verdicts: Verdicts, id: str) -> Finding:
    (found,) = [one for one in verdicts.findings() if one.id == "tck-id-" + id]
    return found


def test_one_fault_fails_a_requirement_however_often_it_was_met() -> None:
    verdicts = Verdicts()
    assert finding(verdicts, "topic-structure").outcome is Outcome.NOT_EXERCISED
    verdicts.met("topic-structure")
    assert finding(verdicts, "topic-structure").outcome is Outcome.PASS
    assert not verdicts.expect(False, "why", "topic-structure", "payloads-nbirth-qos")
    found = finding(verdicts, "topic-structure")
    assert (found.outcome, found.met, found.unmet, found.evidence) == (Outcome.FAIL, 1, 1, ("why",))
    assert verdicts.failed(["payloads-nbirth-qos"])
    assert not verdicts.failed(["payloads-dbirth-qos"])
    assert verdicts.exercised("payloads-nbirth-qos")
    assert not verdicts.exercised("payloads-dbirth-qos")


def test_evidence_is_bounded() -> None:
    verdicts = Verdicts()
    for number in range(100):
        verdicts.unmet(str(number), "topic-structure")
    found = finding(verdicts, "topic-structure")
    assert (found.unmet, found.evidence) == (100, ("0", "1", "2", "3", "4"))


def test_an_id_that_is_none_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="no-such-id"):
        Verdicts().met("no-such-id")

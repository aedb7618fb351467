from dataclasses import replace

import pytest

from sparkplug.actions import Publish
from sparkplug.aware import stamp_death
from sparkplug.check.observed import Connected, Delivered, Disconnected, Observation, Published
from sparkplug.check.verdicts import Outcome
from tests.sparkplug_judged import failed, judged, published, will
from tests.sparkplug_rig import T0, dbirth, nbirth

PLAIN = "conformance-mqtt"
AWARE = "conformance-mqtt-aware"
QOS0, QOS1 = Publish("t", b"0", 0, False), Publish("t", b"1", 1, False)
KEPT = Publish("k", b"kept", 1, True)


def sent(message: Publish) -> Published:
    return Published("p", T0, message)


def got(message: Publish, at: int = T0) -> Delivered:
    return Delivered("s", at, message)


def will_of(message: Publish, delivery: Publish, reason: int | None = None) -> list[Observation]:
    return [Connected("w", T0, 5, True, message), Disconnected("w", T0, reason), got(delivery)]


def test_a_broker_that_conforms_and_is_aware() -> None:
    seen: list[Observation] = [sent(one) for one in (QOS0, QOS1, KEPT)]
    seen += [got(QOS0), got(QOS1), got(KEPT)]
    last = Publish("w", b"gone", 1, True)
    seen += will_of(last, replace(last, retain=False))
    birth, device = nbirth(), dbirth(T0, 1)
    seen += [published(birth), published(device)]
    seen += [got(Publish("$sparkplug/certificates/" + one[0], one[1], 1, True)) for one in (birth, device)]
    found = judged(seen)
    broker = {id for id in found[Outcome.PASS] if id.startswith(PLAIN)}
    assert {id for id in found[Outcome.FAIL] if id.startswith(PLAIN)} == set()
    assert broker == {
        *(f"{PLAIN}-{what}" for what in ("qos0", "qos1", "will-messages", "retained")),
        *(f"{AWARE}-{what}" for what in ("basic", "store", "nbirth-mqtt-topic", "nbirth-mqtt-retain")),
        *(f"{AWARE}-{what}" for what in ("dbirth-mqtt-topic", "dbirth-mqtt-retain")),
    }


def test_what_a_broker_may_not_do() -> None:
    assert failed([sent(QOS0), got(replace(QOS0, qos=1))]) == {f"{PLAIN}-qos1"}
    assert failed([sent(KEPT), got(replace(KEPT, payload=b"other"))]) == {f"{PLAIN}-retained"}
    birth = nbirth()
    kept = got(Publish(*birth, 0, True))
    assert f"{PLAIN}-retained" in failed([published(birth), kept])
    older = got(Publish("$sparkplug/certificates/" + birth[0], nbirth(T0 - 5)[1], 1, True))
    assert failed([published(birth), older]) == {f"{AWARE}-store", f"{AWARE}-nbirth-mqtt-topic"}


def test_what_was_replaced_may_be_on_its_way_for_a_moment() -> None:
    kept = [replace(KEPT, payload=text) for text in (b"a", b"b", b"c")]
    seen = [Published("p", T0 + ms, one) for ms, one in zip((0, 10, 5000), kept, strict=True)]
    for payload, ms, fails in ((b"a", 20, False), (b"b", 5010, False), (b"a", 5010, True), (b"b", 6001, True)):
        past = [one for one in seen if one.at <= T0 + ms]
        assert failed([*past, got(replace(KEPT, payload=payload), T0 + ms)]) == (
            {f"{PLAIN}-retained"} if fails else set()
        )


def test_what_was_published_is_not_remembered_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkplug.check.broker._RECENT_MAX", 2)
    others = [sent(Publish(topic, b"", 0, False)) for topic in "ab"]
    assert f"{PLAIN}-qos0" in judged([sent(QOS0), others[0], got(QOS0)])[Outcome.PASS]
    assert f"{PLAIN}-qos0" in judged([sent(QOS0), *others, got(QOS0)])[Outcome.NOT_EXERCISED]


def test_wills() -> None:
    last = Publish("w", b"gone", 1, False)
    assert f"{PLAIN}-will-messages" in judged(will_of(last, last))[Outcome.PASS]
    assert f"{PLAIN}-will-messages" in judged(will_of(last, last, 4))[Outcome.PASS]
    assert f"{PLAIN}-will-messages" in judged(will_of(last, last, 0))[Outcome.NOT_EXERCISED]
    assert f"{PLAIN}-will-messages" in judged(will_of(last, replace(last, payload=b"x")))[Outcome.NOT_EXERCISED]


def test_a_death_with_the_time_of_its_delivery() -> None:
    last = will()
    for shift, outcome in ((5, Outcome.PASS), (-3_600_000, Outcome.FAIL)):
        stamped = replace(last, payload=stamp_death(last.topic, last.payload, T0 + shift))
        assert f"{AWARE}-ndeath-timestamp" in judged(will_of(last, stamped))[outcome]
    assert f"{AWARE}-ndeath-timestamp" in judged(will_of(last, last))[Outcome.NOT_EXERCISED]


def test_what_was_published_before_the_watching_is_not_judged() -> None:
    assert failed([got(replace(KEPT, retain=True)), got(Publish("$sparkplug/certificates/x", b"", 1, True))]) == set()

from dataclasses import replace

import pytest

from sparkplug import state
from sparkplug.actions import Publish
from sparkplug.check.observed import Observation, Subscribed
from sparkplug.check.verdicts import Outcome
from sparkplug.datatypes import DataType
from sparkplug.model import Metric, Payload
from sparkplug.payload import encode
from sparkplug.source import REBIRTH
from sparkplug.state import State
from tests.sparkplug_judged import (
    DCMD,
    NCMD,
    changed,
    connected,
    delivered,
    failed,
    judged,
    left,
    published,
    session,
    will,
    written,
)
from tests.sparkplug_rig import T0, Message, data, dbirth, ddeath, nbirth, ndeath, topic

WILL = "message-flow-edge-node-birth-publish-will-message"
FLOW = "message-flow-edge-node-birth-publish"
LEFT = "operational-behavior-edge-node-termination-host-offline"
SERVERS = "operational-behavior-primary-application-state-with-multiple-servers"
REBIRTHS = "operational-behavior-data-commands-rebirth"
STATE = "spBv1.0/STATE/h"
ASK = (
    topic("NCMD"),
    encode(Payload(T0, [Metric(REBIRTH, datatype=DataType.Boolean, value=True)]), with_datatypes=False),
)


def said(online: bool, at: int, where: str = STATE) -> Message:
    return where, state.encode(State(online, at))


@pytest.mark.parametrize(
    ("change", "ids"),
    [
        ({"clean": False}, {"principles-persistence-clean-session-311"}),
        ({"version": 5, "expiry_s": 60}, {"principles-persistence-clean-session-50"}),
        ({"version": 5, "clean": False}, {"principles-persistence-clean-session-50"}),
        ({"will": will(qos=0)}, {f"{WILL}-qos", "payloads-ndeath-will-message-qos"}),
        ({"will": will(retain=True)}, {f"{WILL}-will-retained", "payloads-ndeath-will-message-retain"}),
        (
            {"will": Publish(topic("NDEATH"), b"\xff", 1, False)},
            {f"{WILL}-payload", f"{WILL}-payload-bdSeq", "topics-nbirth-bdseq-increment"},
        ),
        (
            {"will": Publish(topic("NDEATH"), encode(Payload(T0)), 1, False)},
            {f"{WILL}-payload-bdSeq", "topics-ndeath-payload"},
        ),
        (
            {"will": Publish(*changed(ndeath(), "seq: 0"), 1, False)},
            {"topics-ndeath-seq", "payloads-ndeath-seq"},
        ),
        ({"will": Publish(*changed(ndeath(), 'metrics { name: "x" }'), 1, False)}, {"topics-ndeath-payload"}),
    ],
)
def test_connect(change: dict[str, object], ids: set[str]) -> None:
    assert ids <= failed([connected(**change)])  # type: ignore[arg-type]


def test_bd_seq_grows_with_each_connect() -> None:
    ids = {f"{WILL}-payload-bdSeq", "topics-nbirth-bdseq-increment"}
    assert failed([connected(254), left(), connected(255), left(), connected(0)]) == set()
    assert failed([connected(1), left(), connected(1)]) == ids
    assert failed([connected(255), left(), connected(256)]) == ids


@pytest.mark.parametrize(
    ("birth", "ids"),
    [
        (nbirth(seq=None), {"payloads-nbirth-seq", "payloads-sequence-num-always-included", "topics-nbirth-seq-num"}),
        (nbirth(seq=7), {"topics-nbirth-seq-num"}),
        (
            nbirth(bd_seq=None),
            {"topics-nbirth-bdseq-included", "payloads-nbirth-bdseq", "topics-nbirth-bdseq-matching"},
        ),
        (nbirth(bd_seq=1), {"topics-nbirth-bdseq-matching", "payloads-nbirth-bdseq-repeat"}),
        ((topic("NBIRTH"), b"\xff"), {f"{FLOW}-nbirth-payload"}),
        (
            written("NBIRTH", "timestamp: 1700000000000 seq: 0"),
            {f"{REBIRTHS}-name", "topics-nbirth-rebirth-metric", "payloads-nbirth-rebirth-req"},
        ),
        (
            written("NBIRTH", f'seq: 0 metrics {{ name: "{REBIRTH}" alias: 3 datatype: 11 boolean_value: false }}'),
            {f"{REBIRTHS}-name-aliases"},
        ),
        (
            written("NBIRTH", f'seq: 0 metrics {{ name: "{REBIRTH}" datatype: 3 int_value: 0 }}'),
            {f"{REBIRTHS}-datatype", f"{REBIRTHS}-value", "topics-nbirth-rebirth-metric"},
        ),
        (
            written("NBIRTH", f'seq: 0 metrics {{ name: "{REBIRTH}" datatype: 11 boolean_value: true }}'),
            {f"{REBIRTHS}-value", "payloads-nbirth-rebirth-req"},
        ),
    ],
)
def test_nbirth(birth: Message, ids: set[str]) -> None:
    seen = session()
    seen[2] = published(birth)
    assert ids <= failed(seen)


@pytest.mark.parametrize(
    ("message", "ids"),
    [
        (data(T0, 3, 5), {"topics-ndata-seq-num", "payloads-ndata-seq-inc", "payloads-sequence-num-incrementing"}),
        (data(T0, None, 5), {"payloads-ndata-seq", "payloads-sequence-num-always-included"}),
        (data(T0, 3, 5, device="d", alias=2), {"topics-ddata-seq-num", "payloads-ddata-seq-inc"}),
        (data(T0, None, 5, device="d", alias=2), {"payloads-ddata-seq"}),
        (dbirth(T0, 3, "e"), {"topics-dbirth-seq", "payloads-dbirth-seq-inc"}),
        (ddeath(T0, 3), {"topics-ddeath-seq-num", "payloads-ddeath-seq-inc"}),
        (written("DDEATH", "timestamp: 1700000000000", "d"), {"payloads-ddeath-seq", "payloads-ddeath-seq-number"}),
        ((topic("DBIRTH", "x"), b"\xff"), {"message-flow-device-birth-publish-dbirth-payload"}),
        (ndeath(1), {"payloads-ndeath-bdseq"}),
    ],
)
def test_messages_after_the_births(message: Message, ids: set[str]) -> None:
    assert ids <= failed(session(published(message)))


def test_seq_wraps_from_255_to_0() -> None:
    values = [published(data(T0, seq % 256, seq)) for seq in range(2, 300)]
    assert failed(session(*values)) == set()


def test_the_order_of_births_and_data() -> None:
    first = session()[:2]
    assert "principles-birth-certificates-order" in failed([*first, published(data(T0, 0, 1))])
    assert "payloads-ndata-order" in failed([*first, published(data(T0, 0, 1))])
    assert "message-flow-device-birth-publish-nbirth-wait" in failed([*first, published(dbirth(T0, 0))])
    found = failed(session(published(data(T0, 2, 1, device="other", alias=4))))
    assert "payloads-ddata-order" in found
    gone = [published(ddeath(T0, 2)), published(data(T0, 3, 1, device="d", alias=2))]
    assert "payloads-ddata-order" in failed(session(*gone))


@pytest.mark.parametrize(
    ("filters", "id"),
    [
        ((DCMD,), "message-flow-edge-node-ncmd-subscribe"),
        ((NCMD,), "message-flow-device-dcmd-subscribe"),
        (((NCMD[0], 0), DCMD), "message-flow-edge-node-ncmd-subscribe"),
        ((NCMD, ("spBv1.0/g/DCMD/e/other", 1)), "message-flow-device-dcmd-subscribe"),
    ],
)
def test_subscriptions(filters: tuple[tuple[str, int], ...], id: str) -> None:
    seen = session()
    seen[1] = Subscribed("n", T0, filters)
    assert failed(seen) == {id}


def test_two_clients_with_one_descriptor() -> None:
    assert failed(session(published(nbirth(), client="other"))) == {
        "topic-structure-namespace-unique-edge-node-descriptor"
    }


def test_a_rebirth_has_all_births_and_no_data_before() -> None:
    births = [published(nbirth(T0 + 1), T0 + 5000), published(dbirth(T0 + 1, 1), T0 + 5000)]
    asked = delivered(ASK)
    assert failed(session(asked, *births)) == set()
    assert {f"{REBIRTHS}-action-{number}" for number in (1, 2, 3)} <= judged(session(asked, *births))[Outcome.PASS]
    on_its_way = published(data(T0, 2, 5), T0 + 900)
    assert failed(session(asked, on_its_way, *births)) == set()
    assert failed(session(asked, published(data(T0, 2, 5), T0 + 1100))) == {f"{REBIRTHS}-action-1"}
    without = [births[0], published(data(T0 + 1, 1, 5), T0 + 5000)]
    assert failed(session(asked, *without)) == {f"{REBIRTHS}-action-2"}
    other_bd = [published(nbirth(T0 + 1, bd_seq=1), T0 + 5000)]
    assert f"{REBIRTHS}-action-3" in failed(session(asked, *other_bd))


@pytest.mark.parametrize("version", [4, 5])
def test_leaving(version: int) -> None:
    death = published(ndeath(), qos=1)
    reason = 4 if version == 5 else 0
    assert failed(session(death, left(reason), version=version)) == set()
    intended = "operational-behavior-edge-node-intentional-disconnect-ndeath"
    last = "payloads-ndeath-will-message-publisher-disconnect-mqtt" + ("50" if version == 5 else "311")
    assert {intended, last} <= failed(session(left(0), version=version))
    assert failed(session(left(None), version=version)) == set()  # a broken connection is no leaving


def waiting(*more: Observation, filters: tuple[tuple[str, int], ...] = ((STATE, 1),)) -> list[Observation]:
    """A node with a primary host, and what it reads before its births."""
    return [
        connected(),
        Subscribed("n", T0, (NCMD, DCMD, *filters)),
        *more,
        published(nbirth()),
        published(dbirth(T0, 1)),
    ]


@pytest.mark.parametrize(
    ("read", "why"),
    [
        ([], "wait"),
        ([said(False, T0)], "wait"),
        ([said(True, T0, "spBv1.0/STATE/other")], "wait-id"),
        ([(STATE, b'{"online":"true","timestamp":1}')], "wait-online"),
        ([said(False, T0), said(True, T0 - 1)], "wait-timestamp"),
    ],
)
def test_a_birth_without_the_primary_host(read: list[Message], why: str) -> None:
    found = failed(waiting(*(delivered(one) for one in read)))
    assert {f"{FLOW}-phid-wait", f"{FLOW}-phid-{why}", "operational-behavior-edge-node-birth-sequence-wait"} == found
    assert failed(waiting(*(delivered(one) for one in read), delivered(said(True, T0)))) == set()


def test_each_session_reads_its_host_anew() -> None:
    first = waiting(delivered(said(True, T0)), delivered(said(True, T0, "spBv1.0/STATE/other")))
    second: list[Observation] = [
        connected(1),
        Subscribed("n", T0, (NCMD, DCMD, (STATE, 1))),
        published(nbirth(bd_seq=1)),
    ]
    assert failed([*first, left(None), *second]) == {
        f"{FLOW}-phid-wait",
        "operational-behavior-edge-node-birth-sequence-wait",
    }


def test_a_primary_host_that_goes() -> None:
    born = waiting(delivered(said(True, T0)))
    gone = delivered(said(False, T0 + 1))
    death = published(ndeath(), qos=1)
    other = replace(connected(1), server="b")
    assert failed([*born, gone, death, left(), other], servers=2) == set()
    passed = judged([*born, gone, death, left(), other], servers=2)[Outcome.PASS]
    assert {f"{FLOW}-phid-offline", LEFT, f"{LEFT}-reconnect", f"{SERVERS}-walk", f"{SERVERS}-state-subs"} <= passed
    assert {f"{FLOW}-phid-offline", LEFT} <= failed([*born, gone, left()])
    assert {f"{FLOW}-phid-offline", LEFT} == failed([*born, gone, published(data(T0, 2, 1), T0 + 5000)])
    back = failed([*born, gone, death, left(), connected(1)], servers=2)
    assert back == {f"{LEFT}-reconnect", f"{SERVERS}-walk"}
    stale = delivered(said(False, T0 - 1))
    assert f"{LEFT}-timestamp" in judged([*born, stale, published(data(T0, 2, 1))])[Outcome.PASS]
    assert failed([*born, stale, death, left()]) == {f"{LEFT}-timestamp"}


def test_one_server_at_a_time() -> None:
    other = replace(connected(1), server="b")
    assert failed([connected(), other]) == {f"{SERVERS}-single-server"}
    assert failed([connected(), left(), other]) == set()


def test_who_watches_from_midway_judges_no_more_than_it_saw() -> None:
    """What a subscriber sees: no CONNECT, and perhaps no birth."""
    assert failed([published(data(T0, 77, 5)), published(data(T0, 78, 6))]) == set()
    found = judged([published(nbirth(T0)), published(dbirth(T0, 1)), published(data(T0, 2, 5))])
    assert found[Outcome.FAIL] == set()
    assert "payloads-ndata-order" in found[Outcome.PASS]
    assert f"{WILL}-qos" in found[Outcome.NOT_EXERCISED]
    assert failed([published(data(T0, 77, 5)), published(data(T0, 79, 6))]) >= {"topics-ndata-seq-num"}


def test_a_will_of_an_earlier_session_may_come_late_to_a_subscriber() -> None:
    first, second = published(nbirth()), published(nbirth(T0 + 1, bd_seq=1))
    after = published(data(T0 + 1, 1, 5), T0 + 1)
    assert failed([first, second, published(ndeath(0)), after]) == set()
    assert failed([first, second, published(ndeath(7)), after]) == {"payloads-ndeath-bdseq"}


def test_a_rebirth_is_seen_by_a_subscriber_too() -> None:
    births = [published(nbirth(T0 + 1), T0 + 50), published(dbirth(T0 + 1, 1), T0 + 50)]
    seen = [published(nbirth()), published(dbirth(T0, 1)), published(ASK, client="host"), *births]
    assert {f"{REBIRTHS}-action-1", f"{REBIRTHS}-action-2"} <= judged(seen)[Outcome.PASS]


def test_a_device_under_two_nodes_and_names_that_differ_by_case() -> None:
    one = published(dbirth(T0, 1))
    two = published(("spBv1.0/g/DBIRTH/E2/d", dbirth(T0, 1)[1]))
    three = published(("spBv1.0/g/DBIRTH/e2/d", dbirth(T0, 1)[1]))
    found = judged([one, two, three])
    assert "topic-structure-namespace-duplicate-device-id-across-edge-node" in found[Outcome.PASS]
    assert "case-sensitivity-sparkplug-ids" in found[Outcome.FAIL]
    assert "case-sensitivity-sparkplug-ids" in judged([one, two])[Outcome.PASS]

from dataclasses import replace

import pytest

from sparkplug import state
from sparkplug.actions import Publish
from sparkplug.check.observed import Connected, Delivered, Disconnected, Marked, Observation, Published, Subscribed
from sparkplug.check.verdicts import Outcome
from sparkplug.datatypes import DataType
from sparkplug.model import Metric, Payload
from sparkplug.payload import encode
from sparkplug.source import REBIRTH
from sparkplug.state import State
from tests.sparkplug_judged import failed, judged, published
from tests.sparkplug_rig import ID, T0, Message, data, dbirth, ddeath, nbirth, ndeath, topic

STATE = "spBv1.0/STATE/h"
TOPIC = "host-topic-phid"
APP = "operational-behavior-host-application"
FLOW = "message-flow-phid-sparkplug"
ACTION = "operational-behavior-edge-node-termination-host-action"
REORDER = "operational-behavior-host-reordering"
ASK = (
    topic("NCMD"),
    encode(Payload(T0, [Metric(REBIRTH, datatype=DataType.Boolean, value=True)]), with_datatypes=False),
)


def said(online: bool, at: int = T0, *, qos: int = 1, retain: bool = True, where: str = STATE) -> Publish:
    return Publish(where, state.encode(State(online, at)), qos, retain)


def connect(**changes: object) -> Connected:
    return replace(Connected("h", T0, 4, True, said(False)), **changes)  # type: ignore[arg-type]


def says(message: Publish, at: int = T0) -> Published:
    return Published("h", at, message)


def reads(message: Message, at: int = T0, *, qos: int = 0) -> Delivered:
    return Delivered("h", at, Publish(*message, qos, False))


SUBSCRIBED = Subscribed("h", T0, ((STATE, 1), ("spBv1.0/+/NDATA/+", 1)))
LEFT = Disconnected("h", T0, 0)


def online(*more: Observation) -> list[Observation]:
    """A host as it should be, and what comes after its birth."""
    return [connect(), SUBSCRIBED, says(said(True)), *more]


def test_a_host_as_it_should_be_fails_nothing() -> None:
    found = judged(online(says(said(False, T0 + 5), T0 + 5), LEFT))
    assert found[Outcome.FAIL] == set()
    assert {f"{APP}-termination", f"{APP}-disconnect-intentional", f"{TOPIC}-birth-required"} <= found[Outcome.PASS]


@pytest.mark.parametrize(
    ("change", "ids"),
    [
        ({"clean": False}, {f"{FLOW}-clean-session-311"}),
        ({"version": 5, "expiry_s": 5}, {f"{FLOW}-clean-session-50"}),
        (
            {"will": said(False, qos=0)},
            {f"{APP}-connect-will-qos", "payloads-state-will-message-qos", f"{TOPIC}-death-qos"},
        ),
        (
            {"will": said(False, retain=False)},
            {f"{APP}-connect-will-retained", "payloads-state-will-message-retain", f"{TOPIC}-death-retain"},
        ),
        ({"will": said(True)}, {f"{APP}-connect-will-payload", "payloads-state-will-message-payload"}),
        (
            {"will": said(False, T0 - 3_600_000)},
            {f"{TOPIC}-death-payload-timestamp-connect", "payloads-state-will-message-payload"},
        ),
        (
            {"will": Publish("STATE/h", b"OFFLINE", 1, True)},
            {f"{APP}-connect-will-topic", "payloads-state-will-message", f"{TOPIC}-death-payload"},
        ),
        ({"will": Publish(STATE, b"{}", 1, True)}, {f"{APP}-connect-will-payload", f"{APP}-death-payload"}),
    ],
)
def test_connect(change: dict[str, object], ids: set[str]) -> None:
    assert ids <= failed([connect(**change)])


@pytest.mark.parametrize(
    ("birth", "ids"),
    [
        (said(True, qos=0), {f"{TOPIC}-birth-qos", f"{APP}-connect-birth-qos"}),
        (said(True, retain=False), {f"{TOPIC}-birth-retain", f"{APP}-connect-birth-retained"}),
        (
            said(True, T0 + 1),
            {
                f"{TOPIC}-birth-payload-timestamp",
                f"{FLOW}-state-publish-payload-timestamp",
                "payloads-state-birth-payload",
            },
        ),
        (said(True, where="spBv1.0/STATE/other"), {f"{TOPIC}-birth-topic", f"{APP}-connect-birth-topic"}),
        (Publish(STATE, b'{"online":true,"timestamp":"1"}', 1, True), {f"{TOPIC}-birth-payload"}),
        (said(False), {f"{TOPIC}-birth-message", f"{APP}-connect-birth", "payloads-state-birth"}),
        (Publish(*ASK, 0, False), {f"{TOPIC}-birth-message", "principles-birth-certificates-order"}),
    ],
)
def test_the_birth_of_a_host(birth: Publish, ids: set[str]) -> None:
    assert ids <= failed([connect(), SUBSCRIBED, says(birth)])


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        ((), {"payloads-state-subscribe", f"{TOPIC}-birth-sub-required", f"{FLOW}-subscription"}),
        (((STATE, 1),), {f"{TOPIC}-birth-sub-required", f"{FLOW}-subscription"}),
        ((("spBv1.0/#", 1),), set()),
    ],
)
def test_subscriptions(filters: tuple[tuple[str, int], ...], ids: set[str]) -> None:
    assert failed([connect(), Subscribed("h", T0, filters), says(said(True))]) == ids


def test_leaving() -> None:
    clean = f"{TOPIC}-death-payload-timestamp-disconnect-clean"
    assert failed(online(LEFT)) == {clean, f"{APP}-termination"}
    late = says(said(False), T0 + 3_600_000)
    assert failed(online(late, LEFT)) == {clean}
    dropped = judged(online(says(said(False)), replace(LEFT, reason=None)))
    assert f"{TOPIC}-death-payload-timestamp-disconnect-with-no-disconnect-packet" in dropped[Outcome.PASS]
    assert failed(online(replace(LEFT, reason=None))) == set()


def test_a_host_contradicts_who_says_that_it_is_offline() -> None:
    id = "message-flow-hid-sparkplug-state-message-delivered"
    wrong = reads((STATE, said(False, T0 - 5).payload))
    assert id in judged(online(wrong, says(said(True))))[Outcome.PASS]
    assert failed(online(wrong, says(said(False)))) == {id}
    assert id in failed(online(wrong, says(said(True, T0 + 9))))
    assert id in judged(online(says(said(False)), wrong))[Outcome.NOT_EXERCISED]


def test_each_server_has_a_time_of_its_own() -> None:
    other: list[Observation] = [
        connect(server="b"),
        replace(SUBSCRIBED, server="b"),
        replace(says(said(True)), server="b"),
    ]
    assert f"{APP}-multi-server-timestamp" in judged([*online(), *other])[Outcome.PASS]
    assert f"{APP}-multi-server-timestamp" in judged(online())[Outcome.NOT_EXERCISED]


def test_two_hosts_with_one_id() -> None:
    assert failed([*online(), replace(connect(), client="h2")]) == {f"{APP}-host-id"}


def test_order() -> None:
    birth = [reads(nbirth()), reads(dbirth(T0, 1))]
    asked = says(Publish(*ASK, 0, False))
    filled = judged(online(*birth, reads(data(T0, 3, 1)), reads(data(T0, 2, 1))))[Outcome.PASS]
    assert {f"{REORDER}-start", f"{REORDER}-success"} <= filled
    assert f"{REORDER}-rebirth" not in filled
    open_hole = judged(online(*birth, reads(data(T0, 3, 1)), asked))[Outcome.PASS]
    assert {f"{REORDER}-start", f"{REORDER}-rebirth"} <= open_hole
    in_order = judged(online(*birth, reads(data(T0, 2, 1)), reads(data(T0, 1, 1)), asked))
    assert f"{REORDER}-start" in in_order[Outcome.NOT_EXERCISED]


def test_deaths_that_a_host_takes_in() -> None:
    gone = [reads(nbirth()), reads(dbirth(T0, 1)), reads(ndeath(), T0 + 9)]
    device, node = Marked("h", T0 + 9, ID, "d", T0 + 9, True), Marked("h", T0 + 9, ID, None, T0 + 9, True)
    assert failed(online(*gone, device, node)) == set()
    assert failed(online(*gone, replace(node, stale=False))) == {f"{ACTION}-ndeath-node-tags-stale"}
    assert failed(online(*gone, replace(device, stale=False))) == {f"{ACTION}-ndeath-devices-tags-stale"}
    assert failed(online(*gone, replace(node, since=5))) == {f"{ACTION}-ndeath-node-offline"}
    assert failed(online(*gone, replace(device, since=5))) == {f"{ACTION}-ndeath-devices-offline"}


def test_the_death_of_a_device_is_at_its_own_time() -> None:
    gone = [reads(nbirth()), reads(dbirth(T0, 1)), reads(ddeath(T0 + 3, 2), T0 + 9)]
    device = Marked("h", T0 + 9, ID, "d", T0 + 3, True)
    assert failed(online(*gone, device)) == set()
    assert failed(online(*gone, replace(device, since=T0 + 9))) == {f"{ACTION}-ddeath-devices-offline"}
    assert failed(online(*gone, replace(device, stale=False))) == {f"{ACTION}-ddeath-devices-tags-stale"}
    assert failed([*online(), published(ddeath(T0, 2)), device]) == set()  # not delivered to it: another reason


def test_commands() -> None:
    assert failed(online(says(Publish(*ASK, 0, False)))) == set()
    assert {"payloads-ncmd-qos", "payloads-ncmd-retain"} <= failed(online(says(Publish(*ASK, 1, True))))

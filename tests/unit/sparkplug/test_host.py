import pytest

from sparkplug import state
from sparkplug.actions import Action, Data, Disconnect, Offline, Online, Publish, Refused, Subscribe
from sparkplug.datatypes import DataType
from sparkplug.host import Host
from sparkplug.model import Metric, Payload, PayloadError
from sparkplug.payload import decode
from sparkplug.source import asks_rebirth
from sparkplug.state import State
from sparkplug.topic import NodeId, TopicError
from tests.sparkplug_rig import ID, T0, Message, data, dbirth, metric, nbirth, ndeath, topic

STATE = "spBv1.0/STATE/h"


def host(**options: object) -> Host:
    one = Host("h", **options)  # type: ignore[arg-type]
    one.connect(T0)
    one.connected(T0 + 5)
    return one


def get(one: Host, *messages: Message, now: int = T0, retained: bool = False) -> list[Action]:
    return [action for message in messages for action in one.message(*message, now, retained=retained)]


def asked(actions: list[Action]) -> list[str]:
    """Topics of requests for a rebirth."""
    sent = [one for one in actions if isinstance(one, Publish)]
    for one in sent:
        payload = decode(one.payload)
        assert (one.qos, one.retain, payload.seq, asks_rebirth(payload.metrics)) == (0, False, None, True)
        assert payload.timestamp is not None
    return [one.topic for one in sent]


def test_a_session_begins_with_will_subscriptions_and_state() -> None:
    one = Host("h", groups=["g1", "g2"])
    will = one.connect(T0).will
    assert (will.topic, will.qos, will.retain) == (STATE, 1, True)
    assert state.decode(will.payload) == State(False, T0)
    subscribe, birth = one.connected(T0 + 70)
    assert isinstance(subscribe, Subscribe)
    assert subscribe.filters[0] == (STATE, 1)
    assert ("spBv1.0/g1/NBIRTH/+", 1) in subscribe.filters
    assert ("spBv1.0/g2/DDEATH/+/+", 1) in subscribe.filters
    assert len(subscribe.filters) == 13
    assert birth == Publish(STATE, state.encode(State(True, T0)), 1, True)  # with the time of the will


def test_leaving_says_offline_with_the_time_of_now() -> None:
    one = host()
    assert one.leave(T0 + 99) == [Publish(STATE, state.encode(State(False, T0 + 99)), 1, True), Disconnect()]
    assert one.leave(T0 + 100) == []
    assert one.message(STATE, state.encode(State(False, T0 + 99)), T0 + 100) == []


def test_times_of_state_never_go_back() -> None:
    one = host()
    one.disconnected(T0)
    assert state.decode(one.connect(T0 - 5000).will.payload) == State(False, T0)


def test_somebody_who_says_that_the_host_is_offline_is_contradicted() -> None:
    one = host()
    true = Publish(STATE, state.encode(State(True, T0)), 1, True)
    assert one.message(STATE, state.encode(State(False, T0 - 9)), T0 + 50) == [true]
    assert one.message(STATE, b"", T0 + 50) == [true]
    assert one.message(STATE, state.encode(State(True, T0)), T0 + 50) == []
    assert one.message("spBv1.0/STATE/other", state.encode(State(False, T0)), T0) == []
    (refused,) = one.message(STATE, b"OFFLINE", T0)
    assert isinstance(refused, Refused)


def test_state_as_in_2_2() -> None:
    one = Host("h", legacy_state=True)
    assert one.connect(T0).will == Publish("STATE/h", b"OFFLINE", 1, True)
    assert one.connected(T0)[1] == Publish("STATE/h", b"ONLINE", 1, True)
    assert one.message("STATE/h", b"OFFLINE", T0) == [Publish("STATE/h", b"ONLINE", 1, True)]


@pytest.mark.parametrize("bad", ["", "a/b", "+"])
def test_ids_are_checked(bad: str) -> None:
    with pytest.raises(TopicError):
        Host(bad)
    with pytest.raises(TopicError):
        Host("h", groups=[bad])


def test_a_rebirth_is_asked_for_with_the_next_tick_and_again_until_it_comes() -> None:
    one = host()
    get(one, nbirth(), data(T0 + 1, 1, 5, alias=9))
    assert asked(one.tick(T0 + 100)) == [topic("NCMD")]
    assert asked(one.tick(T0 + 200)) == []
    assert asked(one.tick(T0 + 5100)) == [topic("NCMD")]
    get(one, nbirth(T0 + 5200), now=T0 + 5200)
    assert asked(one.tick(T0 + 100_000)) == []


def test_a_hole_takes_a_rebirth_when_the_timer_is_over() -> None:
    one = host(reorder_ms=700)
    get(one, nbirth(), data(T0 + 2, 2, 5))
    assert one.tick(T0 + 699) == []
    told = one.tick(T0 + 700)
    assert [type(action).__name__ for action in told] == ["Missing", "Data", "Publish"]


def test_the_requests_of_all_nodes_share_one_budget() -> None:
    one = host(rebirth_burst=3, rebirth_every_ms=1000)
    for number in range(8):
        id = NodeId("g", f"e{number}")
        get(one, nbirth(id=id), now=T0)
        one.rebirth(id)
    assert len(asked(one.tick(T0))) == 3
    assert len(asked(one.tick(T0 + 2999))) == 2
    assert sum(len(asked(one.tick(T0 + ms))) for ms in range(3000, 10_000, 100)) == 3 + 4  # who answered not, once more


def test_a_node_that_died_is_not_asked_any_more() -> None:
    one = host()
    get(one, nbirth(), data(T0 + 1, 1, 5, alias=9), ndeath(0))
    assert asked(one.tick(T0 + 100)) == []


def test_with_the_connection_all_nodes_are_unknown_and_asked_when_it_is_back() -> None:
    one = host()
    dead = NodeId("g", "dead")
    get(one, nbirth(), nbirth(id=dead), ndeath(id=dead))
    assert one.disconnected(T0 + 10) == [Offline(ID, None, T0 + 10)]
    assert one.tick(T0 + 1000) == []
    one.connect(T0 + 2000)
    one.connected(T0 + 2000)
    assert asked(one.tick(T0 + 2100)) == [topic("NCMD")]
    told = get(one, nbirth(T0 + 2200), now=T0 + 2200)
    assert isinstance(told[0], Online)


def test_data_of_a_node_that_was_never_born_takes_a_rebirth() -> None:
    one = host()
    assert get(one, data(T0, 5, 5)) == []
    assert asked(one.tick(T0 + 1999)) == []
    assert asked(one.tick(T0 + 2000)) == [topic("NCMD")]
    told = get(one, nbirth(T0 + 2100), now=T0 + 2100)
    late = [action for action in told if isinstance(action, Data) and action.late]
    assert len(late) == 1


def test_a_death_is_remembered_of_a_node_that_was_never_born_too() -> None:
    one = host()
    assert get(one, ndeath(3)) == []
    (refused,) = get(one, nbirth(bd_seq=3))
    assert isinstance(refused, Refused)
    get(one, nbirth(bd_seq=4))
    assert one.nodes[ID].online


def test_a_retained_birth_is_not_believed() -> None:
    one = host()
    (refused,) = get(one, nbirth(), retained=True)
    assert isinstance(refused, Refused)
    assert asked(one.tick(T0 + 100)) == [topic("NCMD")]
    get(one, nbirth(T0 + 200))
    assert one.nodes[ID].online


def test_more_nodes_than_allowed_are_refused() -> None:
    one = host(nodes_max=1)
    get(one, nbirth())
    (refused,) = get(one, nbirth(id=NodeId("g", "e2")))
    assert isinstance(refused, Refused)
    assert list(one.nodes) == [ID]


@pytest.mark.parametrize("bad", [("x/y", b""), (topic("NBIRTH"), b"\xff"), (topic("DDATA"), b""), (STATE, b"{")])
def test_what_cannot_be_read_is_refused(bad: Message) -> None:
    (refused,) = get(host(), bad)
    assert isinstance(refused, Refused)
    assert refused.topic == bad[0]


def test_commands_of_other_hosts_are_none_of_its_business() -> None:
    assert get(host(), (topic("NCMD"), b""), (topic("DCMD", "d"), b"")) == []


def test_a_command_goes_by_alias_without_seq_and_datatype() -> None:
    one = host()
    get(one, nbirth(), dbirth(T0 + 1, 1, metrics=[metric("temp", None, 20)]))
    (node,) = one.command(ID, None, {"speed": -4}, T0 + 9)
    (device,) = one.command(ID, "d", {"temp": None}, T0 + 9)
    assert isinstance(node, Publish)
    assert isinstance(device, Publish)
    assert (node.topic, node.qos, node.retain) == (topic("NCMD"), 0, False)
    assert decode(node.payload, types={1: DataType.Int32}) == Payload(T0 + 9, [Metric(None, 1, T0 + 9, 3, -4)])
    assert device.topic == topic("DCMD", "d")
    assert decode(device.payload) == Payload(T0 + 9, [Metric("temp", None, T0 + 9, 0, None, is_null=True)])
    with pytest.raises(PayloadError):
        one.command(ID, None, {"speed": "fast"}, T0)
    for id, wrong, name in [(NodeId("a", "b"), None, "speed"), (ID, "e", "speed"), (ID, None, "temp")]:
        with pytest.raises(KeyError):
            one.command(id, wrong, {name: 1}, T0)
    with pytest.raises(KeyError):
        one.rebirth(NodeId("a", "b"))

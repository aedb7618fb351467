from collections.abc import Sequence

import pytest

from sparkplug import state
from sparkplug.actions import Action, Command, Connect, Disconnect, Publish, Refused, Subscribe
from sparkplug.datatypes import DataType
from sparkplug.model import Metric, Payload, PayloadError, PropertySet, PropertyValue, Template
from sparkplug.node import EdgeNode, Phase
from sparkplug.payload import decode, encode
from sparkplug.source import REBIRTH, bd_seq_of
from sparkplug.state import State
from sparkplug.topic import NodeId, TopicError

ID = NodeId("g", "e")
T0 = 1_700_000_000_000
REBIRTH_COMMAND = encode(Payload(T0, [Metric(REBIRTH, datatype=DataType.Boolean, value=True)]))


def metric(name: str, value: int | None = 1, datatype: int = DataType.Int32) -> Metric:
    return Metric(name, datatype=datatype, value=value)


def edge(**options: object) -> EdgeNode:
    node = EdgeNode(ID, [metric("speed"), metric("load")], **options)  # type: ignore[arg-type]
    node.add_device("d", [metric("temp", None)], T0)
    return node


def born(**options: object) -> EdgeNode:
    node = edge(**options)
    node.connect(T0)
    node.connected(T0)
    return node


def types(actions: Sequence[Action]) -> list[str]:
    return [one.topic.split("/")[2] for one in actions if isinstance(one, Publish)]


def payload(action: Action) -> Payload:
    assert isinstance(action, Publish)
    return decode(action.payload)


def test_a_session_begins_with_the_will_the_subscriptions_and_the_births() -> None:
    node = edge()
    connect = node.connect(T0)
    assert connect == Connect(Publish("spBv1.0/g/NDEATH/e", connect.will.payload, 1, False), 0)
    will = decode(connect.will.payload)
    assert (will.seq, bd_seq_of(will.metrics), len(will.metrics), node.bd_seq) == (None, 0, 1, 0)
    subscribe, nbirth, dbirth = node.connected(T0 + 5)
    assert subscribe == Subscribe((("spBv1.0/g/NCMD/e", 1), ("spBv1.0/g/DCMD/e/#", 1)))
    assert [(one.topic, one.qos, one.retain) for one in (nbirth, dbirth) if isinstance(one, Publish)] == [
        ("spBv1.0/g/NBIRTH/e", 0, False),
        ("spBv1.0/g/DBIRTH/e/d", 0, False),
    ]
    first = payload(nbirth)
    assert (first.seq, first.timestamp, bd_seq_of(first.metrics)) == (0, T0 + 5, 0)
    assert [(one.name, one.alias, one.datatype, one.value, one.timestamp) for one in first.metrics] == [
        ("bdSeq", None, DataType.Int64, 0, T0 + 5),
        (REBIRTH, None, DataType.Boolean, False, T0 + 5),
        ("speed", 1, DataType.Int32, 1, T0 + 5),
        ("load", 2, DataType.Int32, 1, T0 + 5),
    ]
    second = payload(dbirth)
    assert second.seq == 1
    assert second.metrics == [Metric("temp", 3, T0 + 5, DataType.Int32, None, is_null=True)]


def test_bd_seq_counts_connections_and_wraps() -> None:
    node = EdgeNode(ID, bd_seq=254)
    seen = []
    for _ in range(3):
        seen.append(bd_seq_of(decode(node.connect(T0).will.payload).metrics))
        assert bd_seq_of(payload(node.connected(T0)[1]).metrics) == seen[-1] == node.bd_seq
        node.disconnected(T0)
    assert seen == [255, 0, 1]


def test_data_carries_the_alias_alone_and_only_what_changed() -> None:
    node = born()
    (data,) = node.write(None, {"speed": 2, "load": 1}, T0 + 10)
    assert isinstance(data, Publish)
    assert (data.topic, data.qos, data.retain) == ("spBv1.0/g/NDATA/e", 0, False)
    assert payload(data) == Payload(T0 + 10, [Metric(None, 1, T0 + 10, 0, 2)], 2)
    assert node.write(None, {"speed": 2}, T0 + 20) == []
    (data,) = node.write("d", {"temp": 7}, T0 + 30)
    assert payload(data) == Payload(T0 + 30, [Metric(None, 3, T0 + 30, 0, 7)], 3)
    (data,) = node.write("d", {"temp": None}, T0 + 40)
    assert payload(data).metrics == [Metric(None, 3, T0 + 40, 0, None, is_null=True)]


def test_without_aliases_data_carries_the_name() -> None:
    node = born(aliases=False)
    (data,) = node.write(None, {"speed": 2}, T0 + 10)
    assert payload(data).metrics == [Metric("speed", None, T0 + 10, 0, 2)]


def test_seq_wraps() -> None:
    node = born()
    seqs = [payload(node.write(None, {"speed": value}, T0 + value)[0]).seq for value in range(2, 300)]
    assert seqs == [value % 256 for value in range(2, 300)]


def test_a_value_that_the_datatype_does_not_hold_changes_nothing() -> None:
    node = born()
    with pytest.raises(PayloadError):
        node.write(None, {"load": 5, "speed": 2**40}, T0)
    with pytest.raises(PayloadError):
        node.write(None, {"load": "x"}, T0)
    with pytest.raises(KeyError):
        node.write(None, {"nope": 1}, T0)
    assert payload(node.write(None, {"load": 5}, T0 + 1)[0]).seq == 2


def test_a_rebirth_repeats_all_births_with_the_same_bd_seq() -> None:
    node = born()
    node.write(None, {"speed": 9}, T0 + 1)
    births = node.message("spBv1.0/g/NCMD/e", REBIRTH_COMMAND, T0 + 2)
    assert types(births) == ["NBIRTH", "DBIRTH"]
    assert [payload(one).seq for one in births] == [0, 1]
    first = payload(births[0])
    assert bd_seq_of(first.metrics) == 0
    assert [one.value for one in first.metrics] == [0, False, 9, 1]
    assert [one.timestamp for one in first.metrics] == [T0 + 2, T0 + 2, T0 + 1, T0]
    assert payload(node.write(None, {"speed": 10}, T0 + 3)[0]).seq == 2


@pytest.mark.parametrize(
    "metrics",
    [
        [Metric(REBIRTH, datatype=DataType.Boolean, value=False)],
        [Metric("Node Control/rebirth", datatype=DataType.Boolean, value=True)],
        [],
    ],
)
def test_what_is_no_request_for_a_rebirth_causes_none(metrics: list[Metric]) -> None:
    assert types(born().message("spBv1.0/g/NCMD/e", encode(Payload(T0, metrics)), T0)) == []


def test_commands_are_told_by_name_with_the_datatype_of_the_birth() -> None:
    node = born()
    by_alias = encode(Payload(T0, [Metric(None, 1, value=-3, datatype=DataType.Int32)]), with_datatypes=False)
    assert node.message("spBv1.0/g/NCMD/e", by_alias, T0) == [Command(None, "speed", -3)]
    by_name = encode(Payload(T0, [Metric("temp", value=4, datatype=DataType.Int32)]))
    assert node.message("spBv1.0/g/DCMD/e/d", by_name, T0) == [Command("d", "temp", 4)]
    assert node.message("spBv1.0/g/NCMD/e", by_name, T0) == [Refused("spBv1.0/g/NCMD/e", "no metric 'temp'")]


@pytest.mark.parametrize(
    ("topic", "data", "reason"),
    [
        ("spBv1.0/g/NCMD/e", b"\xff", "protobuf"),
        ("spBv1.0/g/DCMD/e/unknown", b"", "nothing is born"),
        ("spBv1.0/g/NCMD", b"", "levels"),
    ],
)
def test_bad_messages_are_refused(topic: str, data: bytes, reason: str) -> None:
    (refused,) = born().message(topic, data, T0)
    assert isinstance(refused, Refused)
    assert refused.topic == topic
    assert reason in refused.reason


def test_commands_of_another_time_or_for_others_are_not_carried_out() -> None:
    node = born()
    (refused,) = node.message("spBv1.0/g/NCMD/e", REBIRTH_COMMAND, T0, retained=True)
    assert isinstance(refused, Refused)
    assert node.message("spBv1.0/g/NCMD/other", REBIRTH_COMMAND, T0) == []
    assert node.message("spBv1.0/g/NDATA/e", REBIRTH_COMMAND, T0) == []
    node.disconnected(T0)
    (refused,) = node.message("spBv1.0/g/NCMD/e", REBIRTH_COMMAND, T0)
    assert isinstance(refused, Refused)


def test_devices_come_and_go() -> None:
    node = born()
    (lost,) = node.device_lost("d", T0 + 1)
    assert isinstance(lost, Publish)
    assert (lost.topic, lost.qos, payload(lost)) == ("spBv1.0/g/DDEATH/e/d", 0, Payload(T0 + 1, [], 2))
    assert node.device_lost("d", T0 + 1) == []
    assert types(node.message("spBv1.0/g/NCMD/e", REBIRTH_COMMAND, T0 + 2)) == ["NBIRTH"]
    (back,) = node.device_back("d", T0 + 3)
    assert types([back]) == ["DBIRTH"]
    assert payload(back).seq == 1
    assert node.device_back("d", T0 + 3) == []
    (new,) = node.add_device("d2", [metric("x")], T0 + 4)
    assert payload(new).metrics[0].alias == 4
    for device in ("d", "a/b"):
        with pytest.raises((ValueError, TopicError)):
            node.add_device(device, [], T0)


def test_one_more_metric_takes_a_new_birth() -> None:
    node = born()
    assert types(node.define("d", metric("x"), T0 + 1)) == ["DBIRTH"]
    assert types(node.define(None, metric("y"), T0 + 1)) == ["NBIRTH", "DBIRTH"]
    assert edge().define(None, metric("y"), T0) == []
    for name in ("y", "bdSeq", REBIRTH, ""):
        with pytest.raises(ValueError, match=r"named|own|name"):
            node.define(None, metric(name), T0)


def test_a_definition_of_a_template_has_no_alias() -> None:
    definition = Template(metrics=[metric("x")], is_definition=True)
    node = EdgeNode(ID, [Metric("T", datatype=DataType.Template, value=definition), metric("a")])
    node.connect(T0)
    assert [one.alias for one in payload(node.connected(T0)[1]).metrics] == [None, None, None, 1]


def test_templates_are_defined_by_the_node() -> None:
    definition = Template(metrics=[metric("x")], is_definition=True)
    with pytest.raises(ValueError, match="defined by the node"):
        EdgeNode(ID).add_device("d", [Metric("T", datatype=DataType.Template, value=definition)], T0)


def test_a_part_of_a_template_is_sent_and_the_whole_is_born_again() -> None:
    members = [metric("x"), metric("y")]
    node = EdgeNode(ID, [Metric("t", datatype=DataType.Template, value=Template(None, members, [], "T"))])
    node.connect(T0)
    node.connected(T0)
    (sent,) = node.write(None, {"t": Template(None, [metric("y", 5)], [], "T")}, T0 + 1)
    part = payload(sent).metrics[0].value
    assert isinstance(part, Template)
    assert [one.name for one in part.metrics] == ["y"]
    (again,) = node.message("spBv1.0/g/NCMD/e", REBIRTH_COMMAND, T0 + 2)
    whole = payload(again).metrics[2].value
    assert isinstance(whole, Template)
    assert [(one.name, one.value) for one in whole.metrics] == [("x", 1), ("y", 5)]


def test_properties_stand_in_births_alone() -> None:
    properties = PropertySet({"unit": PropertyValue(DataType.String, "mm")})
    node = EdgeNode(ID, [Metric("a", datatype=DataType.Int32, value=1, properties=properties)])
    node.connect(T0)
    assert payload(node.connected(T0)[1]).metrics[2].properties == properties
    (sent,) = node.write(None, {"a": 2}, T0 + 1)
    assert payload(sent).metrics[0].properties is None
    (again,) = node.message("spBv1.0/g/NCMD/e", REBIRTH_COMMAND, T0 + 2)
    assert payload(again).metrics[2].properties == properties


def test_what_nobody_hears_is_sent_later_as_history() -> None:
    node = born()
    node.disconnected(T0 + 1)
    for value in range(250):
        assert node.write(None, {"speed": 1000 + value}, T0 + 10 + value) == []
    assert node.backlog == 250
    node.connect(T0 + 1000)
    births = node.connected(T0 + 1001)
    assert [one.value for one in payload(births[1]).metrics][2] == 1249
    assert payload(node.write(None, {"load": 7}, T0 + 1002)[0]).seq == 2  # live values do not wait for the backlog
    batches = [payload(node.tick(T0 + 1003)[0]) for _ in range(3)]
    assert node.tick(T0 + 1004) == []
    sent = [one for batch in batches for one in batch.metrics]
    assert all(one.is_historical and one.name is None for one in sent)
    assert [(one.value, one.timestamp) for one in sent] == [(1000 + value, T0 + 10 + value) for value in range(250)]
    assert [(batch.seq, batch.timestamp) for batch in batches] == [(3, T0 + 1003), (4, T0 + 1003), (5, T0 + 1003)]


def test_the_backlog_has_an_end_and_counts_what_it_drops() -> None:
    node = edge(history_max=3)
    for value in range(5):
        node.write("d", {"temp": value}, T0 + value)
    assert (node.backlog, node.dropped) == (3, 2)


def test_the_backlog_of_a_lost_device_waits_for_it() -> None:
    node = born()
    node.device_lost("d", T0)
    node.write("d", {"temp": 1}, T0 + 1)
    assert node.tick(T0 + 2) == []
    assert [one.value for one in payload(node.device_back("d", T0 + 3)[0]).metrics] == [1]
    (late,) = node.tick(T0 + 4)
    assert types([late]) == ["DDATA"]
    assert payload(late).metrics == [Metric(None, 3, T0 + 1, 0, 1, is_historical=True)]


def test_a_value_older_than_the_latest_is_history() -> None:
    node = born()
    node.write(None, {"speed": 5}, T0 + 10)
    (data,) = node.write(None, {"speed": 4}, T0 + 20, at=T0 + 9)
    assert payload(data).metrics == [Metric(None, 1, T0 + 9, 0, 4, is_historical=True)]
    assert node.write(None, {"speed": 5}, T0 + 21) == []


def test_leaving_says_so_first() -> None:
    node = born()
    death, disconnect = node.leave(T0 + 9)
    assert isinstance(death, Publish)
    assert (death.topic, death.qos, death.retain) == ("spBv1.0/g/NDEATH/e", 1, False)
    assert (payload(death).seq, bd_seq_of(payload(death).metrics)) == (None, 0)
    assert disconnect == Disconnect(with_will=True)
    assert node.leave(T0) == []
    node.disconnected(T0)
    assert node.server == 0


def online(value: bool, timestamp: int) -> bytes:
    return state.encode(State(value, timestamp))


STATE = "spBv1.0/STATE/h"


def waiting(**options: object) -> EdgeNode:
    node = edge(primary_host="h", **options)
    node.connect(T0)
    (subscribe,) = node.connected(T0)
    assert isinstance(subscribe, Subscribe)
    assert subscribe.filters[-1] == ((STATE, 1) if not options.get("legacy_state") else ("STATE/h", 1))
    return node


def test_no_birth_before_the_primary_host_is_online() -> None:
    node = waiting()
    assert node.message(STATE, online(False, T0), T0) == []
    assert node.message("spBv1.0/STATE/other", online(True, T0), T0) == []
    assert node.message("STATE/h", b"ONLINE", T0) == []
    assert types(node.message(STATE, b'{"online":"true","timestamp":1}', T0)) == []
    assert node.message(STATE, b"", T0) == []
    assert types(node.message(STATE, online(True, T0 - 1), T0)) == []  # older than the offline
    assert node.write(None, {"speed": 3}, T0) == []
    assert types(node.message(STATE, online(True, T0 + 1), T0)) == ["NBIRTH", "DBIRTH"]
    assert node.message(STATE, online(True, T0 + 2), T0) == []


def test_a_valid_offline_of_the_primary_host_ends_the_session() -> None:
    node = waiting(servers=3)
    node.message(STATE, online(True, T0), T0)
    (refused,) = node.message(STATE, online(False, T0 - 1), T0)
    assert isinstance(refused, Refused)
    assert node.phase is Phase.BORN
    actions = node.message(STATE, online(False, T0), T0)
    assert types(actions) == ["NDEATH"]
    assert actions[-1] == Disconnect(with_will=True)
    assert node.message(STATE, online(True, T0 + 5), T0) == []
    assert node.write(None, {"speed": 3}, T0) == []
    node.disconnected(T0)
    assert node.connect(T0).server == 1


def test_a_server_without_the_primary_host_is_left_for_the_next() -> None:
    node = waiting(servers=2)
    assert node.message(STATE, online(False, T0), T0) == [Disconnect()]
    node.disconnected(T0)
    assert node.connect(T0).server == 1
    node.connected(T0)
    assert node.tick(T0 + 29_999) == []
    assert node.tick(T0 + 30_000) == [Disconnect()]
    node.disconnected(T0)
    assert node.connect(T0).server == 0


def test_the_only_server_is_not_left_while_waiting() -> None:
    node = waiting()
    assert node.tick(T0 + 10**9) == []
    assert node.message(STATE, online(False, T0), T0) == []


def test_a_legacy_state_counts_in_the_session_in_which_it_comes() -> None:
    node = waiting(legacy_state=True)
    assert types(node.message("STATE/h", b"ONLINE", T0)) == ["NBIRTH", "DBIRTH"]
    assert types(node.message("STATE/h", b"OFFLINE", T0)) == ["NDEATH"]
    node.disconnected(T0)
    node.connect(T0)
    assert types(node.connected(T0)) == []


def test_what_is_reported_goes_out_as_it_is_and_history_leaves_the_live_value() -> None:
    node = born()
    same = [Metric("temp", timestamp=T0 + 1, value=7)]
    for _ in range(2):
        (action,) = node.report("d", same, T0 + 9)
        assert payload(action).metrics == [Metric(None, 3, T0 + 1, 0, 7)]
    (action,) = node.report("d", [Metric("temp", timestamp=T0 + 2, value=8, is_historical=True)], T0 + 9)
    assert payload(action).metrics == [Metric(None, 3, T0 + 2, 0, 8, is_historical=True)]
    assert node.devices["d"].metrics["temp"].value == 7


def test_a_report_that_cannot_be_said_takes_no_seq() -> None:
    node = born()
    with pytest.raises(PayloadError):
        node.report("d", [Metric("temp", value="x")], T0)
    with pytest.raises(KeyError):
        node.report("d", [Metric("none", value=1)], T0)
    assert payload(node.report("d", [Metric("temp", value=1)], T0)[0]).seq == 2
    node.device_lost("d", T0)
    assert node.report("d", [Metric("temp", value=2)], T0) == []
    assert edge().report(None, [Metric("speed", value=2)], T0) == []


def test_what_is_learnt_stands_in_the_next_birth_unless_it_is_older() -> None:
    node = born()
    node.learn("d", [Metric("temp", timestamp=T0 + 5, value=7)], T0 + 9)
    node.learn("d", [Metric("temp", timestamp=T0 + 4, value=6)], T0 + 9)
    node.device_lost("d", T0)
    (birth,) = node.device_back("d", T0)
    assert [(one.value, one.timestamp) for one in payload(birth).metrics] == [(7, T0 + 5)]


def test_other_metrics_are_born_anew_and_names_that_stay_keep_their_alias() -> None:
    node = born()
    (birth,) = node.redefine("d", [metric("new"), metric("temp", 4)], T0)
    assert [(one.name, one.alias, one.value) for one in payload(birth).metrics] == [("new", 4, 1), ("temp", 3, 4)]
    assert types(node.redefine(None, [metric("load")], T0)) == ["NBIRTH", "DBIRTH"]
    with pytest.raises(ValueError, match="two metrics"):
        node.redefine("d", [metric("a"), metric("a")], T0)
    node.device_lost("d", T0)
    assert node.redefine("d", [metric("a")], T0) == []

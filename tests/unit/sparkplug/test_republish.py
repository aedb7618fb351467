from collections.abc import Sequence

import pytest

from sparkplug.actions import Publish, Refused
from sparkplug.datatypes import DataType
from sparkplug.model import Metric, Payload, Template
from sparkplug.node import Phase
from sparkplug.origin import Told, ToSource
from sparkplug.payload import decode, encode
from sparkplug.republish import Republisher
from sparkplug.source import REBIRTH
from sparkplug.state import State
from sparkplug.state import encode as encode_state
from sparkplug.topic import NodeId
from tests.sparkplug_rig import T0, Message, data, dbirth, ddeath, metric, nbirth, ndeath, topic

OWN = NodeId("G", "E")


class Rig:
    """The machine with messages under keys 1, 2, 3 ..., and what it publishes, by our names."""

    def __init__(self, *, born: bool = True, **options: object) -> None:
        self.machine = Republisher(OWN, **options)  # type: ignore[arg-type]
        self.now = T0
        self.key = 0
        self.names: dict[int, str] = {}
        if born:
            self.connect()

    def connect(self) -> list[tuple[str, dict[str, object], bool]]:
        self.machine.connect(self.now)
        return self.said(self.machine.connected(self.now))

    def take(self, message: Message, *, age: int = 0, late: bool = False) -> list[tuple[str, dict[str, object], bool]]:
        self.key += 1
        return self.said(self.machine.take(self.key, *message, self.now, late=late, received=self.now - age))

    def tick(self, ms: int = 100) -> list[tuple[str, dict[str, object], bool]]:
        self.now += ms
        return self.said(self.machine.tick(self.now))

    def said(self, actions: Sequence[Told]) -> list[tuple[str, dict[str, object], bool]]:
        """``TYPE[/DEVICE]``, values by name, all of them historical."""
        found = []
        for action in actions:
            if not isinstance(action, Publish):
                continue
            levels = action.topic.split("/")
            payload = decode(action.payload)
            for one in payload.metrics:
                if one.name and one.alias is not None:
                    self.names[one.alias] = one.name
            values: dict[str, object] = {one.name or self.names[one.alias or 0]: one.value for one in payload.metrics}
            values.pop("bdSeq", None)
            values.pop(REBIRTH, None)
            past = bool(payload.metrics) and all(one.is_historical for one in payload.metrics)
            found.append(("/".join([levels[2], *levels[4:]]), values, past))
        return found

    def settled(self) -> list[object]:
        self.machine.confirmed(self.machine.sent)
        return sorted(self.machine.settled())  # type: ignore[type-var]


def refused(actions: Sequence[Told]) -> list[str]:
    return [one.reason for one in actions if isinstance(one, Refused)]


def test_a_source_that_is_live_is_a_device_that_is_live() -> None:
    rig = Rig()
    assert rig.take(nbirth()) == [("DBIRTH/g:e", {"speed": 10}, False)]
    assert rig.take(dbirth(T0, 1)) == [("DBIRTH/g:e:d", {"temp": 20}, False)]
    assert rig.take(data(T0 + 1, 2, 11)) == [("DDATA/g:e", {"speed": 11}, False)]
    assert rig.take(data(T0 + 1, 3, 21, device="d", alias=2)) == [("DDATA/g:e:d", {"temp": 21}, False)]
    assert rig.take(ddeath(T0 + 2, 4)) == [("DDEATH/g:e:d", {}, False)]
    assert rig.take(ndeath()) == [("DDEATH/g:e", {}, False)]
    assert rig.settled() == [1, 2, 3, 4, 5, 6]


def test_what_comes_before_the_destination_is_there_is_born_first_and_history_after() -> None:
    rig = Rig(born=False)
    for message in (nbirth(), data(T0 + 1, 1, 11), data(T0 + 2, 2, 12)):
        assert rig.take(message) == []
    assert rig.machine.settled() == [1]
    assert rig.connect() == [
        ("NBIRTH", {}, False),
        ("DBIRTH/g:e", {"speed": 12}, False),
        ("DDATA/g:e", {"speed": 11}, True),
        ("DDATA/g:e", {"speed": 12}, True),
    ]
    assert rig.settled() == [2, 3]


def test_history_keeps_its_time_and_seq_is_given_when_it_goes_out() -> None:
    rig = Rig(born=False)
    rig.take(nbirth())
    rig.take(data(T0 + 1, 200, 11))
    rig.machine.connect(T0 + 50)
    sent = [decode(one.payload) for one in rig.machine.connected(T0 + 50) if isinstance(one, Publish)]
    assert [one.seq for one in sent] == [0, 1, 2]
    assert (sent[2].timestamp, sent[2].metrics[0].timestamp, sent[2].metrics[0].name) == (T0 + 50, T0 + 1, None)


def test_the_backlog_is_throttled_and_live_values_pass_it() -> None:
    rig = Rig(rate=10)
    rig.take(nbirth())
    first = [rig.take(data(T0 + n, n, n), age=60_000) for n in range(1, 6)]
    assert first[0] == [("DDATA/g:e", {"speed": 1}, True)]
    rig.take(dbirth(T0, 6))
    assert rig.take(data(T0 + 10, 7, 10)) == [("DDATA/g:e", {"speed": 10}, False)]
    rest = [rig.tick(100) for _ in range(6)]
    assert [one for part in first[1:] + rest for one in part] == [
        ("DDATA/g:e", {"speed": n}, True) for n in range(2, 6)
    ]


def test_after_the_backlog_a_birth_says_the_newest_values() -> None:
    rig = Rig()
    rig.take(nbirth())
    assert rig.take(data(T0 + 1, 1, 11), age=60_000) == [("DDATA/g:e", {"speed": 11}, True)]
    assert rig.tick(500) == []
    assert rig.tick(600) == [("DBIRTH/g:e", {"speed": 11}, False)]
    assert rig.tick(2000) == []


def test_late_data_are_named_by_the_birth_of_their_time() -> None:
    rig = Rig()
    rig.take(nbirth(T0))
    rig.take(nbirth(T0 + 1000, metrics=[metric("load", 1, 5, T0 + 1000), metric("speed", 2, 10, T0 + 1000)]))
    assert rig.take(data(T0 + 500, 9, 42, alias=1), late=True) == [("DDATA/g:e", {"speed": 42}, True)]
    assert rig.take(data(T0 + 1500, 1, 43, alias=1)) == [("DDATA/g:e", {"load": 43}, False)]


def test_a_metric_of_an_earlier_birth_is_born_again_for_its_history() -> None:
    rig = Rig()
    rig.take(nbirth(T0))
    rig.take(nbirth(T0 + 1000, metrics=[metric("load", 1, 5, T0 + 1000)]))
    assert rig.take(data(T0 + 500, 9, 42, alias=1), late=True) == [
        ("DBIRTH/g:e", {"load": 5, "speed": None}, False),
        ("DDATA/g:e", {"speed": 42}, True),
    ]


def test_a_birth_with_other_metrics_is_a_birth_and_one_with_the_same_is_data() -> None:
    rig = Rig()
    rig.take(nbirth(T0))
    assert rig.take(nbirth(T0 + 5, metrics=[metric("speed", 1, 11, T0 + 5)])) == [("DDATA/g:e", {"speed": 11}, False)]
    assert rig.take(nbirth(T0 + 5, metrics=[metric("speed", 1, 11, T0 + 5)])) == []
    changed = nbirth(T0 + 9, metrics=[metric("speed", 3, 12, T0 + 9), metric("load", 4, 1, T0 + 9)])
    assert rig.take(changed) == [("DBIRTH/g:e", {"speed": 12, "load": 1}, False)]


def test_a_device_that_its_node_does_not_bring_back_dies() -> None:
    rig = Rig()
    for message in (nbirth(T0), dbirth(T0, 1), dbirth(T0, 2, "other", [metric("x", 3)])):
        rig.take(message)
    rig.take(nbirth(T0 + 5))
    rig.take(dbirth(T0 + 5, 1))
    assert rig.tick(9000) == []
    assert rig.tick(1000) == [("DDEATH/g:e:other", {}, False)]


def test_a_death_waits_for_what_was_said_before_it() -> None:
    rig = Rig(rate=10)
    rig.take(nbirth())
    for n in range(1, 4):
        rig.take(data(T0 + n, n, n), age=60_000)
    assert rig.take(ndeath()) == []
    said = [one for _ in range(5) for one in rig.tick(100)]
    assert [name for name, _, _ in said] == ["DDATA/g:e", "DDATA/g:e", "DDEATH/g:e"]


def test_history_of_a_dead_device_gives_it_a_short_life() -> None:
    rig = Rig()
    rig.take(nbirth())
    rig.take(ndeath())
    assert rig.take(data(T0 + 1, 1, 11), late=True) == [
        ("DBIRTH/g:e", {"speed": 10}, False),
        ("DDATA/g:e", {"speed": 11}, True),
        ("DDEATH/g:e", {}, False),
    ]


def test_a_death_with_another_bd_seq_and_late_ones_change_nothing() -> None:
    rig = Rig()
    rig.take(nbirth(bd_seq=3))
    assert rig.take(ndeath(2)) == rig.take(ndeath(3), late=True) == []
    assert rig.take(ndeath(3)) == [("DDEATH/g:e", {}, False)]


def test_what_was_not_confirmed_goes_out_again_as_history() -> None:
    rig = Rig()
    rig.take(nbirth())
    rig.take(data(T0 + 1, 1, 11))
    rig.machine.confirmed(rig.machine.sent)
    rig.take(data(T0 + 2, 2, 12))
    assert rig.machine.settled() == [1, 2]
    rig.machine.disconnected(rig.now)
    assert rig.connect() == [
        ("NBIRTH", {}, False),
        ("DBIRTH/g:e", {"speed": 12}, False),
        ("DDATA/g:e", {"speed": 12}, True),
    ]
    assert rig.settled() == [3]


def test_a_message_that_comes_again_is_taken_once() -> None:
    rig = Rig(born=False)
    rig.take(nbirth())
    one = data(T0 + 1, 1, 11)
    assert rig.machine.take("k", *one, T0) == rig.machine.take("k", *one, T0) == []
    rig.settled()
    assert len(rig.connect()) == 3
    assert rig.settled() == ["k"]
    assert rig.machine.take("k", *one, T0) == []
    assert rig.settled() == ["k"]


def test_commands_are_passed_on_by_the_source_s_own_alias() -> None:
    rig = Rig(commands=True)
    rig.take(nbirth(metrics=[metric("speed", 77, 10)]))
    own = next(alias for alias, name in rig.names.items() if name == "speed")
    command = encode(Payload(T0, [Metric(None, own, T0, DataType.Int32, 5)]))
    (passed,) = rig.machine.message("spBv1.0/G/DCMD/E/g:e", command, T0)
    assert isinstance(passed, ToSource)
    assert passed.topic == topic("NCMD")
    (said,) = decode(passed.payload).metrics
    assert (said.name, said.alias, said.value) == (None, 77, 5)
    assert refused(Rig().machine.message("spBv1.0/G/DCMD/E/g:e", command, T0)) != []


def test_without_being_asked_to_commands_are_not_passed_on() -> None:
    rig = Rig()
    rig.take(nbirth())
    command = encode(Payload(T0, [Metric("speed", None, T0, DataType.Int32, 5)]))
    assert refused(rig.machine.message("spBv1.0/G/DCMD/E/g:e", command, T0)) == ["commands are not passed on"]


def test_a_rebirth_is_answered_with_what_is_known() -> None:
    rig = Rig()
    rig.take(nbirth())
    rig.take(data(T0 + 1, 1, 11))
    command = encode(Payload(T0, [Metric(REBIRTH, datatype=DataType.Boolean, value=True)]))
    said = rig.said(rig.machine.message("spBv1.0/G/NCMD/E", command, T0))
    assert said == [("NBIRTH", {}, False), ("DBIRTH/g:e", {"speed": 11}, False)]


def test_nothing_is_said_before_the_primary_host_is_there() -> None:
    rig = Rig(born=False, primary_host="h")
    rig.take(nbirth())
    assert rig.connect() == []
    assert rig.take(data(T0 + 1, 1, 11)) == []
    said = rig.said(rig.machine.message("spBv1.0/STATE/h", encode_state(State(True, T0)), T0))
    assert [name for name, _, _ in said] == ["NBIRTH", "DBIRTH/g:e", "DDATA/g:e"]
    rig.machine.message("spBv1.0/STATE/h", encode_state(State(False, T0 + 1)), T0)
    assert rig.machine.node.phase is Phase.LEAVING


def test_without_a_birth_data_are_refused_and_the_source_is_asked_once() -> None:
    rig = Rig()
    first, again = (rig.machine.take(n, *data(T0, n, 1), T0) for n in (1, 2))
    assert [type(one) for one in first] == [Refused, ToSource]
    assert [type(one) for one in again] == [Refused]
    assert rig.machine.refused == 2
    assert rig.settled() == [1, 2]


def test_a_certificate_names_what_comes_without_a_birth() -> None:
    rig = Rig()
    kept = nbirth()
    assert rig.take(("$sparkplug/certificates/" + kept[0], kept[1])) == []
    assert rig.take(data(T0 + 1, 5, 11)) == [("DBIRTH/g:e", {"speed": 10}, False), ("DDATA/g:e", {"speed": 11}, False)]


def test_template_definitions_stand_in_our_birth_under_the_name_of_their_source() -> None:
    rig = Rig()
    members = [Metric("x", datatype=DataType.Int32, value=1)]
    definition = Metric("Axis", None, T0, DataType.Template, Template("1", members, is_definition=True))
    instance = Metric("axis 1", 4, T0, DataType.Template, Template("1", members, template_ref="Axis"))
    said = rig.take(nbirth(metrics=[definition, instance]))
    assert [(name, list(values)) for name, values, _ in said] == [("NBIRTH", ["g:e:Axis"]), ("DBIRTH/g:e", ["axis 1"])]
    value = said[1][1]["axis 1"]
    assert isinstance(value, Template)
    assert value.template_ref == "g:e:Axis"


def test_births_outlive_a_restart() -> None:
    rig = Rig()
    for message in (nbirth(T0), dbirth(T0, 1), nbirth(T0 + 9, metrics=[metric("load", 1, 5)]), dbirth(T0 + 9, 1)):
        rig.take(message)
    rig.take(ddeath(T0 + 10, 2))
    assert rig.machine.births_changed
    again = Rig(born=False)
    again.machine.restore(rig.machine.snapshot(), T0)
    assert not again.machine.births_changed
    assert again.connect() == [("NBIRTH", {}, False), ("DBIRTH/g:e", {"load": 5}, False)]
    assert again.take(data(T0 + 5, 9, 42), late=True)[1] == ("DDATA/g:e", {"speed": 42}, True)
    assert [type(one) for one in again.machine.ask_all(T0)] == [ToSource]
    assert again.take(dbirth(T0 + 20, 1)) == [("DBIRTH/g:e:d", {"temp": 20}, False)]


@pytest.mark.parametrize("message", [("spBv1.0/g/NBIRTH/e", b"\xff"), ("spBv1.0/g/XX/e", b""), ("x", b"")])
def test_what_cannot_be_read_is_refused_and_settled(message: Message) -> None:
    rig = Rig()
    assert len(refused(rig.machine.take(1, *message, T0))) == 1
    assert rig.settled() == [1]


def test_our_own_messages_are_not_taken_for_a_source_s() -> None:
    rig = Rig()
    assert rig.take(nbirth(id=OWN)) == []
    assert rig.settled() == [1]


def test_values_that_their_metric_cannot_hold_are_refused_alone() -> None:
    rig = Rig()
    rig.take(nbirth(metrics=[metric("a", 1), metric("b", 2)]))
    bad = Metric(None, 1, T0, DataType.String, "x")
    payload = encode(Payload(T0 + 1, [bad, Metric(None, 2, T0 + 1, DataType.Int32, 7)], 1))
    assert rig.take((topic("NDATA"), payload)) == [("DDATA/g:e", {"b": 7}, False)]
    assert rig.machine.refused == 1

import pytest

from sparkplug.actions import Action, Data, Missing, Offline, Online, Refused
from sparkplug.datatypes import DataType
from sparkplug.model import Metric, Payload, PayloadError, Template
from sparkplug.payload import encode
from sparkplug.topic import Topic, parse
from sparkplug.view import NodeView
from tests.sparkplug_rig import ID, T0, Message, data, dbirth, ddeath, metric, nbirth, ndeath, topic

NODE, DEVICE = None, "d"


class Seen:
    """A view, and what it told."""

    def __init__(self, *messages: Message) -> None:
        self.view = NodeView(ID, 2000)
        self.now = T0
        self.told: list[Action] = []
        for message in messages:
            self.get(message)

    def get(self, message: Message) -> list[Action]:
        found = parse(message[0])
        assert isinstance(found, Topic)
        actions = self.view.receive(found, message[1], self.now)
        self.told += actions
        return actions

    def wait(self, ms: int) -> list[Action]:
        self.now += ms
        actions = self.view.tick(self.now)
        self.told += actions
        return actions

    def value(self, device: str | None = NODE, name: str = "speed") -> object:
        source = self.view.source(device)
        assert source is not None
        return source.metrics[name].value

    def values(self, *, late: bool) -> list[object]:
        """Of data messages, births left out."""
        told = [one for one in self.told if isinstance(one, Data) and one.late is late]
        return [one.metrics[0].value if one.metrics else None for one in told if len(one.payload.metrics) == 1]


def alive() -> Seen:
    """A node with a device, both born."""
    return Seen(nbirth(), dbirth(T0 + 1, 1, metrics=[metric("temp", 2, 20), metric("flow", 3, 30)]))


def refused(actions: list[Action]) -> str:
    (one,) = actions
    assert isinstance(one, Refused)
    return one.reason


def test_births_bring_node_and_device_online_with_their_values() -> None:
    seen = alive()
    assert [one for one in seen.told if isinstance(one, Online)] == [Online(ID, NODE, T0), Online(ID, DEVICE, T0 + 1)]
    assert (seen.value(), seen.value(DEVICE, "temp")) == (10, 20)
    assert (seen.view.bd_seq, seen.view.wants_rebirth, seen.view.armed) == (0, False, False)


def test_data_is_named_by_the_aliases_of_the_birth() -> None:
    seen = alive()
    (told,) = seen.get(data(T0 + 2, 2, -5))
    assert isinstance(told, Data)
    assert (told.device, told.late, [(one.name, one.value) for one in told.metrics]) == (NODE, False, [("speed", -5)])
    seen.get(data(T0 + 3, 3, 21, device="d", alias=2))
    assert (seen.value(), seen.value(DEVICE, "temp")) == (-5, 21)


def test_a_historical_value_is_told_but_does_not_become_the_live_one() -> None:
    seen = alive()
    seen.get(data(T0 + 2, 2, 5, historical=True))
    assert seen.value() == 10
    assert seen.values(late=False) == [5]


def test_a_backlog_stamped_with_the_time_of_its_values_is_in_order_all_the_same() -> None:
    seen = alive()
    seen.get(data(T0 - 5000, 2, 5, historical=True))
    seen.get(data(T0 + 3, 3, 6))
    assert seen.values(late=False) == [5, 6]
    assert not seen.view.wants_rebirth


def test_an_alias_that_no_birth_gave_takes_a_rebirth() -> None:
    seen = alive()
    told = seen.get(data(T0 + 2, 2, 5, alias=9))
    assert refused(told[1:]) == "the birth had no metric alias 9"
    assert seen.view.wants_rebirth


def test_data_of_a_device_that_was_not_born_takes_a_rebirth() -> None:
    seen = alive()
    assert refused(seen.get(data(T0 + 2, 2, 5, device="other"))) == "the device was not born"
    assert seen.view.wants_rebirth


def test_the_death_of_a_device_is_at_the_time_that_it_says() -> None:
    seen = alive()
    seen.now = T0 + 500
    assert seen.get(ddeath(T0 + 2, 2)) == [Offline(ID, DEVICE, T0 + 2)]
    device = seen.view.devices["d"]
    assert (device.online, device.at, device.metrics["temp"].value) == (False, T0 + 2, 20)
    assert seen.view.online
    seen.view.wants_rebirth = False
    assert refused(seen.get(ddeath(T0 + 3, 3))) == "the device was not born"
    assert not seen.view.wants_rebirth


def test_the_death_of_the_node_takes_all_with_it_at_the_time_of_the_host() -> None:
    seen = alive()
    seen.now = T0 + 500
    assert seen.get(ndeath(0)) == [Offline(ID, DEVICE, T0 + 500), Offline(ID, NODE, T0 + 500)]
    assert not seen.view.online
    assert not seen.view.devices["d"].online
    assert seen.get(ndeath(0)) == []  # an explicit one and the will


def test_a_death_of_another_session_is_ignored_and_the_node_shows_that_it_lives() -> None:
    seen = Seen(nbirth(bd_seq=1))
    assert "bdSeq 0" in refused(seen.get(ndeath(0)))
    assert seen.view.online
    assert seen.view.wants_rebirth
    seen.wait(29_999)
    seen.get(data(T0 + 30_000, 1, 4))
    seen.wait(100_000)
    assert seen.view.online


def test_a_node_whose_will_never_matches_its_births_is_offline_when_it_does_not_show_itself() -> None:
    seen = Seen(nbirth(bd_seq=1), ndeath(0))
    assert seen.wait(29_999) == []
    assert seen.wait(1) == [Offline(ID, NODE, T0 + 30_000)]


@pytest.mark.parametrize(("born", "dead"), [(None, 3), (3, None), (None, None)])
def test_without_a_bd_seq_on_both_sides_a_death_counts(born: int | None, dead: int | None) -> None:
    seen = Seen(nbirth(bd_seq=born), ndeath(dead))
    assert not seen.view.online


def test_messages_out_of_order_are_told_in_order() -> None:
    seen = alive()
    for seq in (4, 3, 5, 2):
        seen.get(data(T0 + seq, seq, seq))
    assert seen.values(late=False) == [2, 3, 4, 5]
    assert not seen.view.armed
    seen.wait(5000)
    assert not seen.view.wants_rebirth


def test_a_hole_that_stays_open_is_told_and_takes_a_rebirth() -> None:
    seen = alive()
    seen.get(data(T0 + 5, 5, 5))
    assert seen.view.armed
    assert seen.wait(1999) == []
    told = seen.wait(1)
    assert told[0] == Missing(ID, 3)
    assert seen.values(late=False) == [5]
    assert seen.view.wants_rebirth
    assert not seen.view.armed


def test_a_message_that_was_given_up_is_late_when_it_comes() -> None:
    seen = alive()
    seen.get(data(T0 + 5, 5, 5))
    seen.wait(2000)
    seen.get(data(T0 + 3, 3, 3))
    assert (seen.values(late=True), seen.value()) == ([3], 5)


def test_a_device_birth_may_come_in_the_wrong_order() -> None:
    seen = Seen(nbirth(), data(T0 + 2, 2, 7, device="d", alias=2), dbirth(T0 + 1, 1))
    assert seen.value(DEVICE, "temp") == 7


def test_a_repetition_is_dropped_and_other_bytes_are_not() -> None:
    seen = alive()
    assert seen.get(nbirth()) == []
    seen.get(data(T0 + 2, 2, 5))
    assert seen.get(data(T0 + 2, 2, 5)) == []
    seen.get(data(T0 + 4, 4, 7))
    assert seen.get(data(T0 + 4, 4, 7)) == []
    told = seen.get(data(T0 + 5, 4, 8))  # the same seq: 256 later, or a fault
    assert told[0] == Missing(ID, 1)
    assert seen.view.wants_rebirth


def test_a_replay_of_before_the_birth_is_history_with_the_names_of_then() -> None:
    seen = Seen(
        nbirth(T0, bd_seq=0, metrics=[metric("old", 1), metric("speed", 2)]),
        ndeath(0),
        nbirth(T0 + 1000, bd_seq=1, metrics=[metric("speed", 1, 10), metric("new", 2)]),
    )
    seen.get(data(T0 + 500, 77, 99))
    (late,) = [one for one in seen.told if isinstance(one, Data) and one.late]
    assert [(one.name, one.value) for one in late.metrics] == [("old", 99)]
    assert seen.value() == 10
    assert not seen.view.armed
    (unnamed,) = seen.get(data(T0 - 500, 78, 98))  # of a session of which nothing is known
    assert isinstance(unnamed, Data)
    assert (unnamed.late, unnamed.metrics) == (True, [])
    assert refused(seen.get(dbirth(T0 + 500, 3))) == "of an earlier time"
    seen.get(data(T0 + 1001, 1, 12))
    assert seen.value() == 12


def test_data_before_the_birth_waits_for_it() -> None:
    seen = Seen()
    assert seen.get(data(T0 + 2, 1, 5)) == []
    assert seen.wait(1999) == []
    assert not seen.view.wants_rebirth
    seen.wait(1)
    told = seen.get(nbirth(T0 + 1))
    assert (seen.value(), seen.values(late=False)) == (5, [5])
    assert len(told) == 3


def test_a_birth_that_does_not_come_is_asked_for() -> None:
    seen = Seen(data(T0 + 2, 1, 5))
    seen.wait(2000)
    assert seen.view.wants_rebirth


def test_data_of_the_last_session_that_comes_before_the_new_birth_is_history() -> None:
    seen = Seen(nbirth(T0, bd_seq=0), ndeath(0))
    seen.get(data(T0 + 400, 30, 5))
    seen.get(nbirth(T0 + 500, bd_seq=1))
    assert (seen.value(), seen.values(late=True), seen.values(late=False)) == (10, [5], [])
    seen.wait(5000)
    assert not seen.view.wants_rebirth


def test_what_waits_for_a_birth_has_an_end_and_is_told() -> None:
    seen = Seen(*(data(T0 + seq, seq % 256, seq) for seq in range(300)))
    assert len([one for one in seen.told if isinstance(one, Data) and one.late]) == 44


def test_what_waits_for_a_birth_is_bounded_in_bytes_too() -> None:
    seen = Seen()
    for seq in range(9):
        told = seen.get((topic("NDATA"), encode(Payload(T0, [], seq, body=bytes(200_000)))))
        assert [type(one) for one in told] == ([] if seq < 4 else [Data])


def test_a_node_has_no_more_devices_than_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkplug.view._DEVICES_MAX", 2)
    seen = Seen(nbirth())
    for number in range(3):
        told = seen.get(dbirth(T0, 1 + number, f"d{number}", [metric("x")]))
    assert refused(told) == "more than 2 devices"
    assert list(seen.view.devices) == ["d0", "d1"]
    assert isinstance(seen.get(dbirth(T0 + 1, 4, "d1", [metric("x")]))[0], Online)


def test_an_older_birth_never_replaces_a_newer_one() -> None:
    seen = Seen(nbirth(T0, bd_seq=5))
    assert "older" in refused(seen.get(nbirth(T0 - 1, bd_seq=4)))
    assert (seen.view.bd_seq, seen.value()) == (5, 10)


def test_a_birth_after_its_own_death_is_believed_when_it_answers_a_request() -> None:
    seen = Seen(nbirth(T0, bd_seq=0), ndeath(0))
    assert "death" in refused(seen.get(nbirth(T0 + 10, bd_seq=0)))
    assert seen.view.wants_rebirth
    assert "death" in refused(seen.get(nbirth(T0 + 11, bd_seq=0)))  # nobody was asked yet
    seen.view.asked = True
    assert "death" in refused(seen.get(nbirth(T0 + 11, bd_seq=0)))
    seen.get(nbirth(T0 + 20, bd_seq=0))
    assert seen.view.online
    assert not seen.view.asked


def test_a_birth_that_its_death_overtook_is_not_believed() -> None:
    seen = Seen(nbirth(T0, bd_seq=0), ndeath(0), ndeath(1), ndeath(0))
    assert "bdSeq 1" in refused(seen.get(nbirth(T0 + 10, bd_seq=1)))
    seen.get(nbirth(T0 + 20, bd_seq=2))
    assert seen.view.online


def test_a_birth_that_its_death_overtook_does_not_replace_the_next() -> None:
    seen = Seen(nbirth(T0, bd_seq=0), ndeath(0), ndeath(1), nbirth(T0 + 10, bd_seq=2))
    assert "bdSeq 1" in refused(seen.get(nbirth(T0 + 10, bd_seq=1)))
    assert seen.view.bd_seq == 2


def test_the_birth_of_a_dead_session_does_not_come_back() -> None:
    seen = Seen(nbirth(T0, bd_seq=3), ndeath(3))
    seen.view.asked = True
    assert "repetition" in refused(seen.get(nbirth(T0, bd_seq=3)))
    assert not seen.view.online


def test_a_clock_set_back_is_believed_when_the_node_answers_a_request() -> None:
    seen = Seen(nbirth(T0, bd_seq=3), ndeath(3))
    assert "older" in refused(seen.get(nbirth(T0 - 3_600_000, bd_seq=4)))
    seen.view.asked = True
    seen.get(nbirth(T0 - 3_599_000, bd_seq=4))
    assert seen.view.online


def test_a_rebirth_makes_devices_stale_until_they_are_born_again() -> None:
    seen = alive()
    told = seen.get(nbirth(T0 + 10))
    assert told[0] == Offline(ID, DEVICE, T0)
    seen.get(dbirth(T0 + 11, 1))
    assert seen.view.devices["d"].online


@pytest.mark.parametrize(
    "message",
    [
        nbirth(metrics=[metric("a", 1), metric("b", 1)]),
        dbirth(T0 + 2, 2, "other", [metric("a", 1)]),
        dbirth(T0 + 2, 2, "other", [metric("a", 2)]),
    ],
)
def test_a_birth_that_gives_an_alias_twice_is_refused(message: Message) -> None:
    seen = alive() if "DBIRTH" in message[0] else Seen()
    assert "given to two metrics" in refused(seen.get(message))


def test_a_device_may_give_its_aliases_anew() -> None:
    seen = alive()
    seen.get(dbirth(T0 + 2, 2, metrics=[metric("flow", 2), metric("temp", 4)]))
    seen.get(dbirth(T0 + 3, 3, "other", [metric("x", 3)]))
    assert seen.view.devices["other"].online


def test_a_birth_with_names_that_are_no_names_is_taken_as_far_as_it_goes() -> None:
    seen = Seen()
    told = seen.get(nbirth(metrics=[Metric(None, 5, T0, 3, 1), metric("a", 1, 2)]))
    assert refused(told[-1:]) == "a metric has no name"
    assert seen.value(name="a") == 2


@pytest.mark.parametrize("type", ["NBIRTH", "NDATA"])
def test_a_seq_out_of_range_is_not_taken_modulo(type: str) -> None:
    seen = alive()
    message = topic(type), encode(Payload(T0 + 5)) + b"\x18\x80\x02"  # seq 256
    assert refused(seen.get(message)) == "seq 256 is out of range"


def test_data_without_a_seq_is_taken_as_it_comes() -> None:
    seen = alive()
    seen.get(data(T0 + 2, None, 5))
    seen.get(data(T0 + 3, 2, 6))
    assert seen.values(late=False) == [5, 6]


def test_a_payload_that_cannot_be_read_raises_for_the_host_to_report() -> None:
    seen = alive()
    for type in ("NBIRTH", "NDEATH", "NDATA"):
        with pytest.raises(PayloadError):
            seen.get((topic(type), b"\xff\xff"))
    assert seen.view.online


def test_a_waiting_message_that_cannot_be_read_does_not_stop_the_others() -> None:
    seen = Seen()
    seen.get((topic("NDATA"), b"\xff"))
    seen.get(data(T0 + 2, 1, 5))
    told = seen.get(nbirth(T0 + 1))
    assert any(isinstance(one, Refused) for one in told)
    assert seen.value() == 5


def test_with_the_link_all_is_lost_until_the_next_birth() -> None:
    seen = alive()
    seen.get(data(T0 + 3, 3, 5))  # waits for seq 2
    told = seen.view.link_lost(T0 + 9)
    assert isinstance(told[0], Missing)
    assert told[-2:] == [Offline(ID, DEVICE, T0 + 9), Offline(ID, NODE, T0 + 9)]
    assert seen.value() == 5
    seen.get(data(T0 + 10, 4, 6))
    (late,) = seen.view.link_lost(T0 + 11)
    assert isinstance(late, Data)
    assert (late.late, late.metrics[0].name) == (True, "speed")
    seen.get(nbirth(T0 + 20, bd_seq=0))  # a rebirth within the session of the node: no death was seen
    assert seen.view.online


def test_a_template_keeps_the_members_that_data_leaves_out() -> None:
    whole = Template(None, [metric("x"), metric("y")], [], "T")
    seen = Seen(nbirth(metrics=[Metric("t", 1, T0, DataType.Template, whole)]))
    part = Metric(None, 1, T0 + 1, DataType.Template, Template(None, [metric("y", value=8)], [], "T"))
    seen.get((topic("NDATA"), encode(Payload(T0 + 1, [part], 1), with_datatypes=False)))
    value = seen.value(name="t")
    assert isinstance(value, Template)
    assert [one.value for one in value.metrics] == [1, 8]

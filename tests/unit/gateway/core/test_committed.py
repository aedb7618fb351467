"""What waits for a commit goes on when it is on disk, and not before."""

from tests import wire_format as mqtt
from tests.core_rig import broker, connect, core_of, session_of
from tests.station import Station


def test_acknowledgements_leave_with_their_commit_and_in_order() -> None:
    b = broker()
    connect(b, "away").subscribe("t", qos=1)
    giver = Station(b, "giver")
    b.hold()
    first = [giver.publish("t"), giver.publish("t")]
    assert giver.come() == []
    b.release_one()
    assert giver.pids(mqtt.PUBACK) == first[:1]
    b.release()
    assert giver.pids(mqtt.PUBACK) == first[1:]


def test_packet_ids_may_be_used_when_their_block_is_on_disk() -> None:
    b = broker()
    connect(b, "s")
    s = session_of(b, "s")
    assert s.id_end == s.id_wanted > 0


def test_who_is_gone_meanwhile_gets_nothing() -> None:
    b = broker()
    connect(b, "away").subscribe("t", qos=1)
    giver = Station(b, "giver")
    b.hold()
    giver.publish("t")
    giver.drop()
    b.release()
    assert core_of(b).durable_commit == b.store.numbers[-1]

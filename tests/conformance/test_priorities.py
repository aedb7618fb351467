"""Topic priorities: who goes first, that nobody starves, and that each priority has its own limits."""

import pytest

from tests.conformance.client import Client
from tests.conformance.peer import Peer

TABLE = {"mqtt.mqueue_priorities": "+/high=2,+/low/#=1,+/high/but=1"}
kinds = pytest.mark.parametrize("persistent", [False, True], ids=["memory", "persistent"])
EXPIRY = 100


def blocked(peer: Peer, persistent: bool, qos: int = 1, topic: str = "#") -> tuple[Client, int]:
    """A client whose window of one is taken; the packet id that frees it."""
    client = peer.connect("s", receive_maximum=1, expiry=EXPIRY if persistent else None)
    client.subscribe(f"{peer.prefix}/{topic}", qos=qos)
    peer.connect("first").put(f"{peer.prefix}/none", b"first")
    return client, client.expect("PUBLISH", payload=b"first").pid


def fill(peer: Peer, name: str, count: int, start: int = 0, qos: int = 1) -> None:
    publisher = peer.connect("p")
    for number in range(start, start + count):
        publisher.put(f"{peer.prefix}/{name}", f"{name[0]}{number}".encode(), qos)
    publisher.disconnect()


def names(client: Client, count: int) -> str:
    return "".join(chr(client.take().payload[0]) for _ in range(count))


def runs(text: str) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for letter in text:
        if found and found[-1][0] == letter:
            found[-1] = letter, found[-1][1] + 1
        else:
            found.append((letter, 1))
    return found


@kinds
@pytest.mark.settings(TABLE)
def test_the_high_one_goes_first_and_in_its_own_order(peer: Peer, persistent: bool) -> None:
    client, pid = blocked(peer, persistent)
    fill(peer, "none", 3)
    fill(peer, "low/a", 3)
    fill(peer, "high", 3)
    client.ack("PUBACK", pid)
    got = [client.take().payload for _ in range(9)]
    assert got == [b"h0", b"h1", b"h2", b"l0", b"l1", b"l2", b"n0", b"n1", b"n2"]


@kinds
@pytest.mark.settings(TABLE)
def test_after_its_turn_the_next_one_has_its_own(peer: Peer, persistent: bool) -> None:
    """(priority + 1) * 10 messages are a turn: 30, 20 and 10."""
    client, pid = blocked(peer, persistent)
    for name in ("none", "low/a", "high"):
        fill(peer, name, 45)
    client.ack("PUBACK", pid)
    got = runs(names(client, 135))
    assert got == [("h", 30), ("l", 20), ("n", 10), ("h", 15), ("l", 20), ("n", 10), ("l", 5), ("n", 25)]


@kinds
@pytest.mark.settings({**TABLE, "mqtt.mqueue_default_priority": "highest"})
def test_topics_without_one_are_the_highest_where_told(peer: Peer, persistent: bool) -> None:
    client, pid = blocked(peer, persistent)
    for name in ("low/a", "high", "none"):
        fill(peer, name, 40)
    client.ack("PUBACK", pid)
    assert runs(names(client, 120)) == [("n", 40), ("h", 30), ("l", 20), ("h", 10), ("l", 20)]


@kinds
@pytest.mark.settings(TABLE)
def test_a_topic_that_is_listed_wins_over_a_filter_and_the_first_filter_over_others(
    peer: Peer, persistent: bool
) -> None:
    client, pid = blocked(peer, persistent)
    fill(peer, "none", 1)
    fill(peer, "low/high", 1)  # the second of two filters would match with another priority
    fill(peer, "high", 1)
    client.ack("PUBACK", pid)
    assert names(client, 3) == "hln"


@pytest.mark.settings({**TABLE, "mqtt.max_mqueue_len": 3})
def test_each_priority_has_its_own_limit(peer: Peer) -> None:
    """Its oldest goes, the new one stays, and the others keep theirs."""
    client, pid = blocked(peer, False)
    fill(peer, "high", 3)
    fill(peer, "low/a", 5)
    fill(peer, "none", 4)
    rows = peer.session("s")["priorities"]
    assert [(row["priority"], row["queue_messages"], row["dropped"]) for row in rows] == [
        (2, 3, 0),
        (1, 3, 2),
        (0, 3, 1),
    ]
    assert peer.session("s")["drops"] == {"queue_full": 3}
    client.ack("PUBACK", pid)
    got = [client.take().payload for _ in range(9)]
    assert got == [b"h0", b"h1", b"h2", b"l2", b"l3", b"l4", b"n1", b"n2", b"n3"]
    client.expect_nothing()


@pytest.mark.settings({**TABLE, "mqtt.persistent-session.device.persisted-messages.limit": 3})
def test_the_limit_of_a_device_counts_for_each_priority(peer: Peer) -> None:
    client, pid = blocked(peer, True)
    fill(peer, "high", 3)
    fill(peer, "low/a", 5)
    client.ack("PUBACK", pid)
    assert [client.take().payload for _ in range(6)] == [b"h0", b"h1", b"h2", b"l2", b"l3", b"l4"]
    client.expect_nothing()
    rows = peer.session("s")["priorities"]
    assert {row["priority"]: row["dropped"] for row in rows}[1] == 2


@pytest.mark.settings(TABLE)
def test_priorities_hold_over_a_restart(peer: Peer) -> None:
    """What is on disk is read by priority, each message once, and the counts are there again."""
    client = peer.connect("s", receive_maximum=1, expiry=EXPIRY)
    client.subscribe(f"{peer.prefix}/#", qos=1)
    client.disconnect()
    for name in ("none", "low/a", "high"):
        fill(peer, name, 45)
    peer.restart()
    rows = peer.session("s")["priorities"]
    assert [(row["priority"], row["queue_messages"]) for row in rows] == [(2, 45), (1, 45), (0, 45)]
    back = peer.connect("s", clean=False, receive_maximum=1, expiry=EXPIRY)
    got = [back.take().payload for _ in range(70)]
    assert runs("".join(chr(one[0]) for one in got)) == [("h", 30), ("l", 20), ("n", 10), ("h", 10)]
    peer.settle()
    peer.restart()
    back = peer.connect("s", clean=False, receive_maximum=1, expiry=EXPIRY)
    got += [one.payload for one in back.take_all()]
    # a PUBACK whose removal was not on disk yet may cost a second delivery
    assert set(got) == {f"{letter}{n}".encode() for letter in "hln" for n in range(45)}
    for letter in b"hln":
        fresh = list(dict.fromkeys(one for one in got if one[0] == letter))
        assert fresh == [bytes([letter]) + str(n).encode() for n in range(45)]


@pytest.mark.settings(TABLE)
def test_qos_2_of_all_priorities_is_there_once_after_a_restart(peer: Peer) -> None:
    client = peer.connect("s", receive_maximum=3, expiry=EXPIRY)
    client.subscribe(f"{peer.prefix}/#", qos=2)
    for name in ("none", "low/a", "high"):
        fill(peer, name, 2, qos=2)
    got = [client.expect("PUBLISH") for _ in range(3)]
    client.ack("PUBREC", got[1].pid)
    client.expect("PUBREL", pid=got[1].pid)
    peer.restart()
    back = peer.connect("s", clean=False, receive_maximum=3, expiry=EXPIRY)
    seen: dict[int, bytes] = {got[1].pid: got[1].payload}
    while (packet := back._next(0.3)) is not None:
        if packet.type == "PUBREL":
            back.ack("PUBCOMP", packet.pid)
            seen.pop(packet.pid, None)
        else:
            assert packet.type == "PUBLISH"
            assert packet.pid not in seen
            seen[packet.pid] = packet.payload
            back.ack("PUBREC", packet.pid)
    assert peer.session("s")["queue_messages"] == 0
    assert peer.session("s")["inflight"] == 0


# The window and QoS 0


@pytest.mark.settings(TABLE)
def test_qos_0_flows_past_a_full_window(peer: Peer) -> None:
    client, _ = blocked(peer, False)
    fill(peer, "high", 2)
    publisher = peer.connect("p0")
    publisher.put(f"{peer.prefix}/low/a", b"zero", 0)
    client.expect("PUBLISH", payload=b"zero", qos=0)
    client.expect_nothing()

"""Sparkplug topics, and what is remembered of those who speak on them."""

import pytest

from gateway.core import nodes
from gateway.core.model import Client
from gateway.core.nodes import TAP_BYTES_MAX, TAP_MESSAGES_MAX, Birth, Nodes, Source, Tap, parse


@pytest.mark.parametrize(
    ("topic", "found"),
    [
        ("spBv1.0/plant/NBIRTH/press", (nodes.NBIRTH, "plant", "press", "")),
        ("spBv1.0/plant/NDATA/press", (nodes.NDATA, "plant", "press", "")),
        ("spBv1.0/plant/NDEATH/press", (nodes.NDEATH, "plant", "press", "")),
        ("spBv1.0/plant/NCMD/press", (nodes.NCMD, "plant", "press", "")),
        ("spBv1.0/plant/DBIRTH/press/axis", (nodes.DBIRTH, "plant", "press", "axis")),
        ("spBv1.0/plant/DDATA/press/axis", (nodes.DDATA, "plant", "press", "axis")),
        ("spBv1.0/plant/DDEATH/press/axis", (nodes.DDEATH, "plant", "press", "axis")),
        ("spBv1.0/plant/DCMD/press/axis", (nodes.DCMD, "plant", "press", "axis")),
    ],
)
def test_the_topics_of_nodes_and_devices(topic: str, found: tuple[int, str, str, str]) -> None:
    assert parse(topic) == found


@pytest.mark.parametrize(
    "topic",
    [
        "spBv1.0", "spBv1.0/", "spBv1.0/plant/NDATA", "spBv1.0/plant/NDATA/", "spBv1.0//NDATA/press",
        "spBv1.0/plant/NDATA/press/axis", "spBv1.0/plant/DDATA/press", "spBv1.0/plant/DDATA/press/",
        "spBv1.0/plant/DDATA/press/axis/more", "spBv1.0/STATE/host", "spBv1.0/plant/ndata/press", "spAv1.0/p/NDATA/e",
        "spBv1.0/plant/NOTHING/press", "plant/spBv1.0/plant/NDATA/press",
    ],
)  # fmt: skip
def test_all_others_are_plain_topics(topic: str) -> None:
    assert parse(topic) is None
    assert Nodes().source_of(topic) is None


def test_the_sources_of_a_node_share_it() -> None:
    known = Nodes()
    first, second = known.source_of("spBv1.0/g/NDATA/e"), known.source_of("spBv1.0/g/DDATA/e/d")
    assert first is not None
    assert second is not None
    assert known.source_of("spBv1.0/g/NDATA/e") is first
    assert first.node is second.node
    assert first.node.sources == [first, second]
    other = known.source_of("spBv1.0/g/NDATA/f")
    assert other is not None
    assert other.node is not first.node


def test_messages_are_counted_by_qos() -> None:
    source = Nodes().source_of("spBv1.0/g/NDATA/e")
    assert source is not None
    for qos in (0, 1, 1, 2, 2, 2):
        source.count(qos)
    assert (source.qos0, source.qos1, source.qos2) == (1, 2, 3)


def test_the_caps_bound_what_a_peer_can_make() -> None:
    known = Nodes()
    for number in range(nodes.NODES_MAX):
        known.source_of(f"spBv1.0/g/NDATA/e{number}")
    before = known.full
    assert known.source_of("spBv1.0/g/NDATA/more") is None
    assert (before, known.full) == (False, True)
    assert [known.take_full() for _ in range(2)] == [True, False]
    assert known.source_of("spBv1.0/g/NBIRTH/e1") is not None
    assert known.source_of("spBv1.0/g/NDATA/e1") is not None
    assert (len(known.by_key), len(known.sources)) == (nodes.NODES_MAX, nodes.NODES_MAX + 1)


def test_a_tap_gives_what_came_after_a_number() -> None:
    tap = Tap()
    for number in range(5):
        tap.note(nodes.NDATA, "", bytes([number]))
    assert tap.after(5) == []
    assert tap.after(3) == [(nodes.NDATA, "", b"\3"), (nodes.NDATA, "", b"\4")]
    assert tap.after(6) is None
    tap.clear()
    assert tap.after(5) == []
    assert tap.after(4) is None


def test_a_tap_is_bounded_and_says_when_something_is_gone() -> None:
    tap = Tap()
    for _ in range(TAP_MESSAGES_MAX + 10):
        tap.note(nodes.DDATA, "d", b"x")
    assert len(tap.messages) == TAP_MESSAGES_MAX
    assert tap.after(9) is None
    assert tap.after(10) is not None
    tap.note(nodes.DDATA, "d", b"x" * TAP_BYTES_MAX)
    assert len(tap.messages) == 1
    tap.note(nodes.DDATA, "d", b"x" * (TAP_BYTES_MAX + 1))
    assert (tap.messages, int(tap.bytes)) == ([], 0)


def made(known: Nodes, number: int) -> Source:
    found = known.source_of(f"spBv1.0/g/NDATA/e{number}")
    assert found is not None
    return found


def test_at_the_cap_the_silent_ones_make_room_and_none_else() -> None:
    known = Nodes()
    sources = [made(known, number) for number in range(nodes.NODES_MAX)]
    here = Client(None, "", 100, 0)
    sources[0].node.client = here
    sources[1].node.speaker = here
    birth = known.source_of("spBv1.0/g/NBIRTH/e2")
    assert birth is not None
    birth.births.append(Birth(1, 2, b"born"))
    sources[3].node.heard = 5
    assert known.crowded("spBv1.0/g/NDATA/new")
    assert not known.crowded("spBv1.0/g/NDATA/e7")
    assert not known.crowded("plant/7")
    gone = known.make_room()
    assert len(gone) == nodes.NODES_MAX // nodes.ROOM
    assert not {"g/e0", "g/e1", "g/e2", "g/e3"} & {node.key for node in gone}
    assert not known.crowded("spBv1.0/g/NDATA/new")
    assert known.source_of("spBv1.0/g/NDATA/new") is not None
    assert known.source_of("spBv1.0/g/NDATA/e4") is not sources[4]


def test_with_nobody_to_forget_it_does_not_look_each_time() -> None:
    known = Nodes()
    for number in range(nodes.NODES_MAX):
        made(known, number).node.born = True
    assert known.crowded("spBv1.0/g/NDATA/new")
    assert known.make_room() == []
    looks = [known.crowded(f"spBv1.0/g/NDATA/n{number}") for number in range(nodes.PATIENCE + 1)]
    assert looks.count(True) == 1

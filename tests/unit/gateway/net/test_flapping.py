"""Clients that come and go."""

from gateway.net.flapping import BANS_MAX, KEYS_MAX, Flapping


def test_one_too_many_within_the_window_keeps_it_out_for_a_while() -> None:
    flapping = Flapping(3, 1000, 5000)
    for now in (0, 300, 600):
        assert flapping.came("a", "10.0.0.1:1", now) is None
        assert flapping.came("b", "10.0.0.1:2", now) is None
    assert not flapping.is_banned("a", 900)
    ban = flapping.came("a", "10.0.0.1:9", 999)
    assert ban == (5999, ("10.0.0.1:9",))
    assert flapping.is_banned("a", 5998)
    assert not flapping.is_banned("b", 999)
    assert flapping.bans(999) == [{"client_id": "a", "left_s": 5, "addresses": ["10.0.0.1:9"]}]
    assert flapping.bans(6000) == []
    assert not flapping.is_banned("a", 5999)
    assert flapping.came("a", "10.0.0.1:9", 6000) is None, "it begins anew"


def test_who_comes_back_now_and_then_is_no_such_client() -> None:
    flapping = Flapping(3, 1000, 5000)
    for number in range(100):
        assert flapping.came("a", "10.0.0.1:1", number * 334) is None


def test_two_clients_with_one_id_are_both_named() -> None:
    flapping = Flapping(5, 1000, 5000)
    peers = ["10.0.0.9:1", "10.0.0.1:1", "10.0.0.2:1", "10.0.0.1:2", "10.0.0.2:2", "10.0.0.1:3"]
    bans = [flapping.came("a", peer, 0) for peer in peers]
    assert bans[:5] == [None] * 5
    assert bans[5] is not None
    assert bans[5].addresses == ("10.0.0.2:2", "10.0.0.1:3")


def test_a_ban_can_be_lifted() -> None:
    flapping = Flapping(1, 1000, 5000)
    flapping.came("a", "unix:pid=1,uid=0", 0)
    assert flapping.came("a", "unix:pid=1,uid=0", 0) is not None
    assert not flapping.lift("b", 0)
    assert flapping.lift("a", 0)
    assert not flapping.is_banned("a", 0)
    assert not flapping.lift("a", 0)


def test_names_without_number_take_no_memory() -> None:
    flapping = Flapping(1, 1000, 5000)
    for number in range(KEYS_MAX + 10):
        flapping.came(str(number), "10.0.0.1:1", 0)
    assert len(flapping._seen) == KEYS_MAX
    for number in range(BANS_MAX + 10):
        flapping.came(f"{number}x", "10.0.0.1:1", 0)
        flapping.came(f"{number}x", "10.0.0.1:1", 0)
    assert len(flapping._bans) == BANS_MAX

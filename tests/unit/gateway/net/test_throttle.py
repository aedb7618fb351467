import pytest

from gateway.net.throttle import KEYS_MAX, Failures, Throttle, host_of, network_of


@pytest.mark.parametrize(
    ("peer", "host"),
    [("10.0.0.1:5000", "10.0.0.1"), ("[fe80::1]:5000", "fe80::1"), ("unix:pid=7,uid=0", "unix")],
)
def test_the_host_of_a_peer(peer: str, host: str) -> None:
    assert host_of(peer) == host


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8::1:2:3:4", "2001:db8::/64"),
        ("2001:db8::9", "2001:db8::/64"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("unix", "unix"),
        ("fe80::1%eth0", "fe80::/64"),
        ("no:address", "no:address"),
    ],
)
def test_what_counts_as_one_address(host: str, network: str) -> None:
    assert network_of(host) == network


def test_each_key_has_its_own() -> None:
    throttle = Throttle(3, 60)
    for _ in range(3):
        assert not throttle.is_spent("a", 0)
        throttle.spend("a", 0)
    assert throttle.is_spent("a", 0)
    assert not throttle.is_spent("b", 0)
    for _ in range(100):
        throttle.spend("a", 0)  # beyond what there is nothing is owed
    assert not throttle.is_spent("a", 20_000)


def test_no_limit_counts_nothing_and_memory_is_bounded() -> None:
    unlimited = Throttle(0, 60)
    for _ in range(10):
        unlimited.spend("a", 0)
    assert not unlimited.is_spent("a", 0)
    throttle = Throttle(1, 60)
    throttle.spend("first", 0)
    for i in range(KEYS_MAX):
        throttle.spend(str(i), 0)
    assert len(throttle._buckets) == KEYS_MAX
    assert not throttle.is_spent("first", 0), "the one that was quiet for the longest is forgotten"


def test_a_wrong_password_for_ever_keeps_out_itself_and_a_guesser_the_address() -> None:
    failures = Failures(2)
    for _ in range(9):
        failures.spend("10.0.0.1", "broken", 0)
        if failures.is_spent("10.0.0.1", "broken", 0):
            break
    assert failures.is_spent("10.0.0.1", "broken", 0)
    assert not failures.is_spent("10.0.0.1", "other", 0)
    assert not failures.is_spent("10.0.0.2", "broken", 0)
    for number in range(8):
        assert not failures.is_spent("10.0.0.1", "other", 0)
        failures.spend("10.0.0.1", f"guess {number}", 0)
    assert failures.is_spent("10.0.0.1", "other", 0)
    assert not failures.is_spent("10.0.0.1", "other", 6_000)
    assert not Failures(0).is_spent("a", "b", 0)

import pytest

from gateway.hosts import is_host


@pytest.mark.parametrize(
    "name", ["localhost", "10.0.0.1", "::1", "fe80::1%eth0", "g\u00fcte.example", "a_b.example.", "a" * 63]
)
def test_what_a_resolver_can_be_asked_for(name: str) -> None:
    assert is_host(name)


@pytest.mark.parametrize("name", ["", "..", ".a", "a" * 64, f"{'a' * 64}.b", "a b", "a\n", "a\0", "\udcff"])
def test_what_it_raises_for(name: str) -> None:
    assert not is_host(name)

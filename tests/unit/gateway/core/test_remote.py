"""Names of topics at the other end of an uplink."""

from gateway.core import remote
from gateway.core.remote import Remote
from gateway.core.uplink import BOTH, IN, OUT, Rule
from tests.uplink_rig import login


def made(*rules: Rule) -> Remote:
    return Remote(login(), list(rules), "g1", 8)


def test_names_there_and_here() -> None:
    r = made(Rule(OUT, "a/#", "x/", "y/"), Rule(BOTH, "b", "", "z/"), Rule(IN, "c/+"))
    for _ in range(2):
        assert r.name(b"x/a/1") == b"y/a/1"
        assert r.name(b"b") == b"z/b"
        assert r.name(b"c/1") == b""
    assert r.local("z/b") == "b"
    assert r.local("c/1") == "c/1"
    assert r.local("y/a/1") == ""


def test_no_topic_becomes_longer_than_it_may_be() -> None:
    r = made(Rule(OUT, "#", "", "p" * 10))
    assert r.name(b"t" * 65_525) == b"p" * 10 + b"t" * 65_525
    assert r.name(b"t" * 65_526) == b""
    r = made(Rule(IN, "#", "p" * 10, ""))
    assert r.local("t" * 65_525) == "p" * 10 + "t" * 65_525
    assert r.local("t" * 65_526) == ""


def test_what_is_remembered_has_a_bound() -> None:
    r = made(Rule(OUT, "#", "", "p/"))
    for n in range(remote.NAMES_MAX + 5):
        assert r.name(b"%d" % n) == b"p/%d" % n
    assert len(r._names) == 5
    r.name(b"x" * 257)
    assert len(r._names) == 5

"""Rules of an uplink: which topic they cover, what it is called elsewhere, which of them would loop."""

import pytest

from gateway.core.topics import matches
from gateway.core.uplink import BOTH, IN, OUT, Rule, Uplink, looping, overlap, renamed, rule_for


def test_a_prefix_stands_in_the_place_of_the_other() -> None:
    rule = Rule(OUT, "a/#", "line1/", "factory/hall2/")
    assert (rule.here, rule.there) == ("line1/a/#", "factory/hall2/a/#")
    assert renamed("line1/a/b", rule.local, rule.remote) == "factory/hall2/a/b"


def test_the_first_rule_that_matches_counts_and_only_its_direction() -> None:
    first, second, third = Rule(IN, "a/#"), Rule(OUT, "a/b", "", "x/"), Rule(BOTH, "a/#", "", "y/")
    rules = [first, second, third]
    assert rule_for(rules, "a/b", True) is second
    assert rule_for(rules, "a/c", True) is third
    assert rule_for(rules, "a/c", False) is first
    assert rule_for(rules, "y/a/c", False) is third
    assert rule_for(rules, "b", True) is None
    assert Uplink("n", rules).out_rules() == [second, third]
    assert Uplink("n", rules).in_rules() == [first, third]


TOPICS = ["a", "a/b", "a/b/c", "a/c", "b", "b/b", "/a", "/b", "$x", "$x/b", "a/"]
FILTERS = ["a", "a/b", "a/+", "a/#", "+", "+/b", "#", "+/+", "$x/#", "$x/+", "a/b/#", "+/#", "/+", "a/+/c", "b/#", "$x"]


@pytest.mark.parametrize("first", FILTERS)
@pytest.mark.parametrize("second", FILTERS)
def test_filters_overlap_when_a_topic_matches_both(first: str, second: str) -> None:
    common = [topic for topic in TOPICS if matches(first, topic) and matches(second, topic)]
    if common:
        assert overlap(first, second), common
    else:
        assert not overlap(first, second)


def test_rules_that_bring_back_what_they_sent_are_named() -> None:
    assert looping([Rule(BOTH, "a/#")]) == "both a/#"
    assert looping([Rule(OUT, "a/#"), Rule(IN, "a/b")]) == "out a/# and in a/b"
    assert looping([Rule(OUT, "a/#", "", "up/"), Rule(IN, "a/#", "down/", "")]) == ""
    assert looping([Rule(OUT, "a/#", "", "up/"), Rule(IN, "+/a/b", "down/")]) == "out a/# and in +/a/b"  # there
    assert looping([Rule(OUT, "a"), Rule(IN, "b")]) == ""


def test_a_topic_that_only_ends_where_a_prefix_does_is_not_behind_it() -> None:
    """a/# matches a."""
    rule = Rule(BOTH, "#", "a/", "b/")
    assert rule_for([rule], "a", True) is None
    assert rule_for([rule], "b", False) is None
    assert rule_for([rule, Rule(OUT, "a")], "a", True) == Rule(OUT, "a")
    assert rule_for([rule], "a/", True) is rule
    assert rule_for([Rule(OUT, "a/#")], "a", True) is not None

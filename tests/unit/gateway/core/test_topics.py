import pytest

from gateway.core.topics import Subscription, Trie, check_filter, check_name_levels, matches, split_share


def found(trie: Trie, topic: str) -> list[tuple[str, int]]:
    return sorted((sub.filter, sub.sid) for sub in trie.match(topic))


def test_options_are_the_byte_of_a_subscribe() -> None:
    sub = Subscription(7, "a/+", 2, no_local=True, retain_as_published=False, retain_handling=2, identifier=9)
    assert sub.options == 0b0010_0110
    assert Subscription(7, "a", 1, False, True, 1, 0).options == 0b0001_1001


def test_a_row_gives_the_same_subscription_back() -> None:
    for options in range(64):
        if options & 3 != 3 and options >> 4 != 3:
            sub = Subscription.from_row(3, "x/#", options, 268_435_455)
            assert (sub.sid, sub.filter, sub.options, sub.identifier) == (3, "x/#", options, 268_435_455)
            assert sub.qos == options & 3
            assert sub.no_local is bool(options & 4)
            assert sub.retain_as_published is bool(options & 8)
            assert sub.retain_handling == options >> 4


@pytest.mark.parametrize("filter", ["#", "+", "/", "//", "a", "a/#", "+/#", "/#", "+/+", "a/+/b", "$SYS/#", "a b", "$"])
def test_good_filters(filter: str) -> None:
    assert check_filter(filter, 0)


@pytest.mark.parametrize(
    "filter", ["", "a\0b", "a#", "#a", "#/", "#/a", "a/#/b", "##", "#/#", "a+", "+a", "a/b+/c", "++"]
)
def test_bad_filters(filter: str) -> None:
    assert not check_filter(filter, 0)


def test_levels_are_counted_with_the_empty_ones() -> None:
    assert check_name_levels("a", 1)
    assert not check_name_levels("/", 1)
    assert check_name_levels("a//b", 3)
    assert not check_name_levels("a//b/", 3)
    assert check_name_levels("/" * 65_535, 0)
    assert check_filter("a/#", 2)
    assert not check_filter("a/b/#", 2)


def test_share_is_split_off() -> None:
    assert split_share("$share/g/a/+/b") == ("g", "a/+/b")
    assert split_share("$share/g//") == ("g", "/")
    assert split_share("a/b") == ("", "a/b")
    assert split_share("$shared/g/a") == ("", "$shared/g/a")
    assert split_share("$SHARE/g/a") == ("", "$SHARE/g/a")
    assert split_share("") == ("", "")


@pytest.mark.parametrize(
    "filter", ["$share", "$share/", "$share/g", "$share/g/", "$share//a", "$share/+/a", "$share/g#/a", "$share/#"]
)
def test_malformed_shares(filter: str) -> None:
    with pytest.raises(ValueError, match="share"):
        split_share(filter)


MATCHING = [
    ("a/#", "a"),
    ("a/#", "a/"),
    ("a/#", "a/b/c"),
    ("#", "a"),
    ("#", "/"),
    ("+", ""),
    ("+", "a"),
    ("+/+", "/"),
    ("/+", "/"),
    ("+/+", "/finance"),
    ("/+", "/finance"),
    ("+/#", "a"),
    ("a/+/#", "a/"),
    ("a/+/b", "a//b"),
    ("$SYS/#", "$SYS/x"),
    ("$SYS/#", "$SYS"),
    ("$SYS/+", "$SYS/x"),
    ("$/+", "$/a"),
    ("a/+", "a/$b"),
    ("#", "a/$b"),
]
DIFFERENT = [
    ("+", "/finance"),
    ("+", "a/b"),
    ("a/+", "a"),
    ("a/+/#", "a"),
    ("/a", "a"),
    ("a", "a/"),
    ("a", "A"),
    ("a/b/c", "a/b"),
    ("#", "$SYS/x"),
    ("#", "$"),
    ("+/x", "$SYS/x"),
    ("+/#", "$SYS/x"),
    ("+", "$SYS"),
]


@pytest.mark.parametrize(("filter", "topic"), MATCHING)
def test_matching(filter: str, topic: str) -> None:
    trie = Trie()
    trie.add(Subscription(1, filter, 0))
    assert matches(filter, topic)
    assert found(trie, topic) == [(filter, 1)]


@pytest.mark.parametrize(("filter", "topic"), DIFFERENT)
def test_not_matching(filter: str, topic: str) -> None:
    trie = Trie()
    trie.add(Subscription(1, filter, 0))
    assert not matches(filter, topic)
    assert found(trie, topic) == []


def test_overlapping_filters_are_all_returned() -> None:
    trie = Trie()
    for filter in ("a/b", "a/+", "a/#", "#", "+/b", "a/b/#"):
        trie.add(Subscription(1, filter, 1))
    trie.add(Subscription(2, "a/b", 0))
    trie.add(Subscription(2, "a/c", 0))
    assert [sub.filter for sub in trie.match("a/b") if sub.sid == 2] == ["a/b"]
    assert len(trie.match("a/b")) == 7
    assert len(trie) == 8


@pytest.mark.parametrize("filter", ["a/b", "a/+", "a/#"])
def test_add_replaces_the_same_filter_of_the_same_session(filter: str) -> None:
    trie = Trie()
    first, second = Subscription(1, filter, 0), Subscription(1, filter, 2)
    assert trie.add(first) is None
    assert trie.add(Subscription(2, filter, 0)) is None
    assert trie.add(second) is first
    assert len(trie) == 2
    assert second in trie.match("a/b")
    assert first not in trie.match("a/b")


@pytest.mark.parametrize("filter", ["a/b", "a/+", "a/#", "+/b/#", "#", "$SYS/+"])
def test_remove(filter: str) -> None:
    trie = Trie()
    sub = Subscription(1, filter, 0)
    trie.add(sub)
    trie.add(Subscription(2, filter, 0))
    assert trie.remove(filter, 3) is None
    assert trie.remove(filter + "x", 1) is None
    assert trie.remove("a/b/c/d/+", 1) is None
    assert trie.remove(filter, 1) is sub
    assert trie.remove(filter, 1) is None
    assert len(trie) == 1
    assert trie.remove(filter, 2) is not None
    assert len(trie) == 0


def test_generation_grows_at_each_change_only() -> None:
    trie = Trie()
    seen = [trie.generation]
    trie.add(Subscription(1, "a/#", 0))
    seen.append(trie.generation)
    trie.add(Subscription(1, "a/#", 1))
    seen.append(trie.generation)
    trie.remove("a/#", 1)
    seen.append(trie.generation)
    assert seen == sorted(set(seen))
    trie.remove("a/#", 1)
    trie.match("a")
    assert trie.generation == seen[-1]


def test_remove_prunes_what_is_empty_and_nothing_else() -> None:
    trie = Trie()
    for filter in ("a/+/c/#", "a/+", "a/+/c/d/+"):
        trie.add(Subscription(1, filter, 0))
    before = trie.nodes()
    trie.add(Subscription(2, "a/+/c/d/+/e/f/#", 0))
    trie.add(Subscription(2, "x/y/+", 0))
    trie.add(Subscription(2, "x/y/z", 0))
    assert trie.nodes() == before + 6
    trie.remove("a/+/c/d/+/e/f/#", 2)
    trie.remove("x/y/+", 2)
    trie.remove("x/y/z", 2)
    assert trie.nodes() == before
    assert found(trie, "a/b/c/d/e") == [("a/+/c/#", 1), ("a/+/c/d/+", 1)]
    for filter in ("a/+", "a/+/c/#", "a/+/c/d/+"):
        trie.remove(filter, 1)
    assert trie.nodes() == 1


def test_the_longest_topic_needs_no_recursion() -> None:
    topic = "/" * 65_535
    every_level = "+" + "/+" * 65_535
    parents = "/" * 65_533 + "/#"
    trie = Trie()
    for filter in (topic, every_level, parents, "#"):
        trie.add(Subscription(1, filter, 0))
        assert matches(filter, topic)
    assert len(trie.match(topic)) == 4
    assert len(trie.match(topic + "/")) == 2
    trie.remove(every_level, 1)
    trie.remove(parents, 1)
    assert trie.nodes() == 2
    assert len(trie.match(topic)) == 2
    trie.add(Subscription(1, every_level, 0))
    del trie

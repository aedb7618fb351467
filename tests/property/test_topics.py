"""The trie against the plain definition of a match, over random filters, topics and sequences of changes."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.topics import Subscription, Trie, check_filter, matches, split_share

LEVEL = st.sampled_from(["", "a", "b", "$", "$SYS", "ä"])
TOPIC = st.lists(LEVEL, min_size=1, max_size=5).map("/".join).filter(bool)


@st.composite
def filters(draw: st.DrawFn) -> str:
    levels = draw(st.lists(LEVEL | st.just("+"), max_size=5))
    if not levels or draw(st.booleans()):
        levels.append("#")
    return "/".join(levels) or "+"


def naive(filter: str, topic: str) -> bool:
    """The sentences of 4.7 one by one, recursively, without a look at the code under test."""
    if topic[0] == "$" and filter[0] in "+#":
        return False
    return naive_levels(filter.split("/"), topic.split("/"))


def naive_levels(wanted: list[str], levels: list[str]) -> bool:
    if wanted == ["#"]:
        return True
    if not wanted or not levels:
        return not wanted and not levels
    return wanted[0] in ("+", levels[0]) and naive_levels(wanted[1:], levels[1:])


@given(filters(), TOPIC)
def test_matches_is_the_definition(filter: str, topic: str) -> None:
    assert check_filter(filter, 0)
    assert matches(filter, topic) == naive(filter, topic)


CHANGES = st.lists(st.tuples(st.booleans(), filters(), st.integers(1, 3)), max_size=40)


@given(CHANGES, st.lists(TOPIC, min_size=1, max_size=5))
def test_trie_finds_what_the_naive_matcher_finds(changes: list[tuple[bool, str, int]], topics: list[str]) -> None:
    trie = Trie()
    model: dict[tuple[str, int], Subscription] = {}
    for adding, filter, sid in changes:
        generation = trie.generation
        if adding:
            sub = Subscription(sid, filter, 1)
            assert trie.add(sub) is model.get((filter, sid))
            model[filter, sid] = sub
            assert trie.generation > generation
        else:
            old = model.pop((filter, sid), None)
            assert trie.remove(filter, sid) is old
            assert (trie.generation > generation) == (old is not None)
        assert len(trie) == len(model)
    for topic in topics:
        got = sorted((sub.filter, sub.sid) for sub in trie.match(topic))
        assert got == sorted(key for key in model if naive(key[0], topic))
        for sub in trie.match(topic):
            assert sub is model[sub.filter, sub.sid]
    for filter, sid in model:
        trie.remove(filter, sid)
    assert len(trie) == 0
    assert trie.nodes() == 1


@given(st.text(st.sampled_from("a/+#$\0"), max_size=8))
def test_check_filter_is_the_definition(text: str) -> None:
    levels = text.split("/")
    good = (
        text != ""
        and "\0" not in text
        and all(level == "+" or "+" not in level for level in levels)
        and all("#" not in level for level in levels[:-1])
        and (levels[-1] == "#" or "#" not in levels[-1])
    )
    assert check_filter(text, 0) == good


@given(st.text(st.sampled_from("ag+#$"), min_size=1, max_size=4), filters())
def test_a_share_comes_apart_as_it_was_put_together(group: str, filter: str) -> None:
    try:
        assert split_share(f"$share/{group}/{filter}") == (group, filter)
        assert "+" not in group
        assert "#" not in group
    except ValueError:
        assert "+" in group or "#" in group

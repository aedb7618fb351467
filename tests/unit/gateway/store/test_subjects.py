"""Topics as subjects and back, whatever is in them; filters as subjects that match all of it and never collide."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.topics import check_filter, matches
from gateway.store.subjects import (
    SUBJECT_BYTES_MAX,
    collide,
    cover,
    is_long,
    level,
    of_filter,
    subject,
    token,
    topic,
)

LEVELS = st.text(st.sampled_from("ab.*>$ %;é\u2003\t#+2F"), max_size=6) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), max_size=6
)
TOPICS = st.builds("/".join, st.lists(LEVELS, min_size=1, max_size=5)).filter(bool)
SMALL = st.sampled_from(["a", "b", "", "$x", ".", "*"])
SMALL_TOPICS = st.builds("/".join, st.lists(SMALL, min_size=1, max_size=4)).filter(bool)
FILTERS = st.builds(
    "/".join,
    st.lists(st.one_of(SMALL, st.just("+")), max_size=3).flatmap(lambda some: st.sampled_from([some, [*some, "#"]])),
).filter(lambda f: bool(f) and check_filter(f, 0))


def heard(pattern: str, name: str) -> bool:
    """As a NATS server matches."""
    wanted, tokens = pattern.split("."), name.split(".")
    for at, one in enumerate(wanted):
        if one == ">":
            return len(tokens) > at
        if at == len(tokens) or one not in ("*", tokens[at]):
            return False
    return len(wanted) == len(tokens)


@given(TOPICS)
def test_a_topic_comes_back_as_it_was(name: str) -> None:
    made = subject("LOG", name)
    assert topic("LOG", made) == name


@given(TOPICS)
def test_a_subject_is_one_for_a_server(name: str) -> None:
    tokens = subject("LOG", name).split(".")
    assert tokens[0] == "LOG"
    assert all(tokens)
    assert not any(char.isspace() or char in "*>" or ord(char) < 33 for one in tokens for char in one)


@given(TOPICS, TOPICS)
def test_two_topics_have_two_subjects(first: str, second: str) -> None:
    assert (subject("LOG", first) == subject("LOG", second)) == (first == second)


def test_what_a_plant_calls_its_topics_stays_readable() -> None:
    assert subject("LOG", "plant/line 1/temp.in") == "LOG.plant.line%20;1.temp%2E;in"
    assert subject("LOG", "/a//b/") == "LOG.%.a.%.b.%"
    assert subject("LOG", "$SYS/x") == "LOG.%24;SYS.x"
    assert (token("$a", False), level("%24;a")) == ("$a", "$a")


def test_a_topic_that_is_too_long_is_told_from_all_others() -> None:
    name = "a/" + "é" * SUBJECT_BYTES_MAX
    made = subject("LOG", name)
    assert is_long("LOG", made)
    assert made != subject("LOG", name + "x")
    assert any(heard(one, made) for one in cover("LOG", [name]))
    assert not is_long("LOG", subject("LOG", "%long/x"))


@given(st.lists(FILTERS, min_size=1, max_size=6), SMALL_TOPICS)
def test_what_a_filter_matches_is_heard(filters: list[str], name: str) -> None:
    made = cover("LOG", filters)
    if any(matches(one, name) for one in filters):
        assert any(heard(one, subject("LOG", name)) for one in made)


@given(st.lists(FILTERS, min_size=1, max_size=6))
def test_no_two_subjects_of_a_consumer_collide(filters: list[str]) -> None:
    made = cover("LOG", filters)
    assert not any(collide(one, other) for at, one in enumerate(made) for other in made[at + 1 :])


def test_filters_that_share_nothing_stay_as_narrow_as_they_are() -> None:
    assert cover("LOG", ["a/b", "c/+"]) == ["LOG.%long.>", "LOG.a.b", "LOG.c.*"]
    assert cover("LOG", ["a/#", "a/b"]) == ["LOG.%long.>", "LOG.a", "LOG.a.>"]
    assert cover("LOG", ["#"]) == ["LOG.>"]
    assert cover("LOG", []) == []
    assert of_filter("LOG", "a/#") == ["LOG.a", "LOG.a.>"]

"""The table of topic priorities."""

from gateway.core.priority import CACHE_MAX, HIGHEST, Priorities


def test_the_topic_itself_wins_over_filters_and_of_these_the_first() -> None:
    table = Priorities([("plant/#", 5), ("plant/+/alarm", 200), ("plant/a/alarm", 7), ("plant/a/alarm", 9)], False)
    assert table.of(b"plant/a/alarm") == 7
    assert table.of(b"plant/b/alarm") == 5
    assert table.of(b"other") == 0
    assert Priorities([("plant/+/alarm", 200), ("plant/#", 5)], False).of(b"plant/b/alarm") == 200


def test_dollar_topics_need_a_filter_of_their_own() -> None:
    assert Priorities([("#", 5)], False).of(b"$SYS/x") == 0


def test_without_a_table_all_are_equal() -> None:
    table = Priorities([], True)
    assert not table.on and table.of(b"t") == 0 and table.text == ""


def test_a_turn_is_ten_for_each_step() -> None:
    low, high = Priorities([("t", 1)], False), Priorities([("t", 1)], True)
    assert [low.turn(p) for p in (0, 1, 255)] == [10, 20, 2560]
    assert high.turn(0) == (HIGHEST + 1) * 10
    assert high.weight(0) > high.weight(255) > low.weight(0)


def test_the_text_tells_tables_apart() -> None:
    texts = {Priorities(rows, top).text for rows in ([("a", 1)], [("a", 2)], [("b", 1)]) for top in (True, False)}
    assert len(texts) == 6


def test_what_is_remembered_is_bounded() -> None:
    table = Priorities([("t/+", 3)], False)
    for n in range(CACHE_MAX + 10):
        assert table.of(f"t/{n}".encode()) == 3
    assert len(table._found) <= CACHE_MAX

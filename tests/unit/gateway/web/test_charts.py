"""Charts as points."""

from gateway.web.charts import EMPTY, HEIGHT, WIDTH, chart, peaks
from gateway.web.history import Series


def series(*values: float) -> Series:
    made = Series()
    for second, value in enumerate(values):
        made.add(value, float(second))
    return made


def test_a_line_goes_from_edge_to_edge_and_the_highest_is_near_the_top() -> None:
    made = chart(series(0, 10, 5))
    points = [tuple(map(int, point.split(","))) for point in made.line.split()]
    assert [x for x, _ in points] == [0, WIDTH // 2, WIDTH]
    assert points[0][1] == HEIGHT - 2
    assert points[1][1] == 2
    assert (made.top, made.covers) == (10, "3.0 s")
    assert made.area.startswith(f"0,{HEIGHT} ")


def test_nothing_and_only_zeros_and_one_value_can_be_drawn() -> None:
    assert chart(None) == chart(Series()) == EMPTY
    assert chart(series(0, 0)).line == f"0,{HEIGHT - 2} {WIDTH},{HEIGHT - 2}"
    assert chart(series(7)).line == f"0,2 {WIDTH},2"


def test_fewer_points_keep_the_peaks() -> None:
    values = [0.0] * 100
    values[41] = 9.0
    assert len(peaks(values, 30)) == 30
    assert max(peaks(values, 30)) == 9.0
    assert peaks(values, 100) == values
    assert len(chart(series(*values), 30).line.split()) == 30

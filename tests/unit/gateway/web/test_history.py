"""Series for the charts, and the rates between two reports."""

from gateway.web.history import POINTS, SERIES_MAX, STEP_S_MAX, History, Series
from tests.unit.gateway.web.reports import report, session


def test_a_point_a_second_until_it_is_full() -> None:
    series = Series()
    for second in range(POINTS):
        series.add(second, 100.0 + second)
    assert list(series.points) == list(range(POINTS))
    assert series.step_s == 1.0


def test_a_full_series_covers_twice_the_time_and_keeps_the_peaks() -> None:
    series = Series()
    for second in range(POINTS + 10):
        series.add(1000.0 if second == 101 else 1.0, float(second))
    assert series.step_s == 2.0
    assert len(series.points) == POINTS // 2 + 5
    assert series.points[50] == 1000.0


def test_after_an_hour_the_oldest_goes() -> None:
    series = Series()
    for second in range(3 * 3600):
        series.add(float(second), float(second))
    assert series.step_s == STEP_S_MAX
    assert len(series.points) == POINTS
    assert series.points[-1] == 3 * 3600 - 1
    assert series.points[0] > 3600


def test_within_a_step_the_highest_counts_and_what_was_not_asked_is_as_before() -> None:
    series = Series()
    series.add(3.0, 0.0)
    series.add(9.0, 0.4)
    series.add(1.0, 4.2)
    assert list(series.points) == [9.0, 9.0, 9.0, 9.0, 1.0]


def test_rates_are_what_came_between_two_reports() -> None:
    history = History()
    history.take(report(), 10.0)
    assert history.rates["in"] == 0
    later = report()
    for qos in range(3):
        later["status"]["counters"][f"received_qos{qos}"] += 20
    later["status"]["drops"]["expired"] += 1
    history.take(later, 12.0)
    assert history.rates["in"] == 30.0
    assert history.rates["dropped"] == 0.5
    assert history.series["in"].points[-1] == 30.0
    assert history.sessions["collector"].points[-1] == 12


def test_another_broker_process_begins_anew() -> None:
    history = History()
    history.take(report(), 10.0)
    history.take(report(pid=2, status=report()["status"] | {"drops": {}}), 11.0)
    assert history.rates["dropped"] == 0


def test_sessions_that_are_gone_make_room() -> None:
    history = History()
    history.take(report(sessions=[session(f"old{n}") for n in range(SERIES_MAX)]), 1.0)
    history.take(report(sessions=[session("new")]), 2.0)
    history.take(report(sessions=[session("new")]), 3.0)
    assert list(history.sessions) == ["new"]

"""Moments for people."""

import re

from gateway.web.times import clock_of, stamp_of


def test_a_moment_is_a_date_and_a_time() -> None:
    assert re.fullmatch(r"2023-11-1[45] \d\d:\d\d:20", clock_of(1_700_000_000_000))


def test_what_no_calendar_has_is_a_number() -> None:
    assert clock_of(10**18) == str(10**18)


def test_a_stamp_sorts_by_time_and_is_a_file_name() -> None:
    assert stamp_of(1_700_000_000_123) == "20231114T221320.123Z"

"""The model's parts: rows, pages, what follows from them. Against a real broker: tests/system/doctor/test_size.py."""

import dataclasses

import pytest

from gateway.boards import board
from gateway.doctor.size import (
    FRAME,
    JOURNAL,
    LOCAL_MAX,
    PAGE,
    Load,
    ids_bytes_s,
    pages_of,
    ram_bytes,
    row_bytes,
    size,
    written_bytes,
)
from gateway.settings.table import TABLE

LOAD = Load(rate=100, payload=100)
BOARD = board("x86")


def test_a_row_spills_into_overflow_pages_as_sqlite_has_it() -> None:
    assert pages_of(LOCAL_MAX)[1] == 0
    assert pages_of(LOCAL_MAX + 1)[1] == 1
    assert pages_of(100_000)[1] in (24, 25)
    small, _ = pages_of(100)
    assert 100 < small < 120, "small rows share a leaf"


# bytes that a commit of so many messages of so many bytes was seen to write, and to take; a topic of 12 bytes
@pytest.mark.parametrize(
    ("together", "payload", "written", "used"),
    [
        (1, 64, 4754, 152), (1, 200, 5284, 287), (1, 1000, 9468, 1337), (1, 5000, 22526, 5123),
        (1, 20_000, 50_642, 19_661), (4, 200, 8146, 969), (20, 64, 12_042, 1955), (20, 200, 21_660, 4555),
        (20, 1000, 49_536, 19_882), (100, 200, 56_893, 21_651), (400, 200, 175_550, 85_524),
    ],
)  # fmt: skip
def test_what_was_measured(together: int, payload: int, written: int, used: int) -> None:
    leaf, pages = pages_of(row_bytes(Load(rate=1, payload=payload, topic=12), together))
    assert leaf + pages * PAGE == pytest.approx(used, rel=0.1)
    assert written_bytes(leaf, pages) == pytest.approx(written, rel=0.12)


def test_each_commit_writes_a_page_at_least() -> None:
    assert written_bytes(*pages_of(100)) > FRAME


def test_more_together_is_written_cheaper() -> None:
    one, many = size(LOAD, BOARD), size(dataclasses.replace(LOAD, burst=20), BOARD)
    assert many.written_per_message < one.written_per_message / 3
    assert many.per_commit == 20


def test_online_and_prompt_hardly_more_than_the_clock_is_written() -> None:
    prompt, late = size(LOAD, BOARD), size(dataclasses.replace(LOAD, prompt=False), BOARD)
    assert prompt.written_s_online < 3000
    assert late.written_s_online == late.written_s_away > 100_000
    assert prompt.years > 10 * late.years


def test_packet_ids_cost_less_the_more_of_them_are_used() -> None:
    def a_message(rate: float) -> float:
        return ids_bytes_s(Load(rate=rate, payload=100)) / rate

    assert a_message(10) == a_message(300) == pytest.approx((FRAME + JOURNAL) / 1024)
    assert a_message(1000) == pytest.approx((FRAME + JOURNAL) / 4096)
    assert a_message(100_000) == pytest.approx((FRAME + JOURNAL) / 8192)


def test_what_comes_within_the_commit_interval_is_together() -> None:
    load = Load(rate=1000, payload=200)
    pi = size(load, board("pi-4"))
    assert pi.per_commit == 100
    assert pi.written_per_message < 4 * 200
    assert size(load, board("x86")).per_commit == 2


def test_the_budget_holds_the_outage_and_grows_with_it() -> None:
    short, long = size(LOAD, BOARD), size(dataclasses.replace(LOAD, outage_s=10 * LOAD.outage_s), BOARD)
    assert long.disk == pytest.approx(10 * short.disk)
    assert int(str(long.settings["store.max_bytes"]).removesuffix("MiB")) << 20 > long.disk
    assert long.messages == 100 * 10 * 8 * 3600


def test_settings_are_settings() -> None:
    for name, value in size(LOAD, board("pi-zero-2w")).settings.items():
        assert TABLE[name].kind.parse(value)


def test_a_collector_that_takes_less_than_comes_never_catches_up() -> None:
    assert size(dataclasses.replace(LOAD, drain=100), BOARD).drain_s is None
    assert size(dataclasses.replace(LOAD, drain=200), BOARD).drain_s == pytest.approx(LOAD.outage_s)


def test_what_does_not_fit_says_so() -> None:
    huge = size(Load(rate=1000, payload=10_000, outage_s=7 * 86_400), board("pi-4"))
    assert not huge.fits
    assert huge.longest_s < 7 * 86_400
    assert size(LOAD, BOARD).fits


def test_ram_grows_with_connections_and_with_the_time_away() -> None:
    base = ram_bytes(LOAD, 1)
    assert ram_bytes(dataclasses.replace(LOAD, connections=1020), 1) - base == pytest.approx(6_400_000)
    assert ram_bytes(dataclasses.replace(LOAD, outage_s=7 * 86_400), 1) > base

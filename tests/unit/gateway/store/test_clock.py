"""Gateway time over restarts: exact within a boot, never shortened by a wall clock nobody vouches for."""

import ctypes
import errno
import time
from pathlib import Path

import pytest

from gateway.store import clock
from gateway.store.clock import Reading, offset_at_start, stamp

HOUR = 3_600_000
DAY = 24 * HOUR
WALL = 1_800_000_000_000

# the machine ran 10 h of gateway time, saved its stamp 5 h after its boot
SAVED = stamp(Reading("boot-a", 5 * HOUR, WALL, True), 5 * HOUR)
SAVED_UNSYNCED = stamp(Reading("boot-a", 5 * HOUR, WALL, False), 5 * HOUR)


def gateway_ms(meta: dict[str, int | str], now: Reading) -> int:
    return now.boottime_ms + offset_at_start(meta, now)


def test_the_stamp_holds_what_the_next_start_needs() -> None:
    assert SAVED == {
        "clock.boot_id": "boot-a",
        "clock.offset_ms": 5 * HOUR,
        "clock.gateway_ms": 10 * HOUR,
        "clock.wall_ms": WALL,
        "clock.synced": 1,
    }


def test_a_new_database_starts_with_the_uptime() -> None:
    assert offset_at_start({}, Reading("boot-a", 7, WALL, True)) == 0


@pytest.mark.parametrize("wall_jump", [0, 14 * DAY, -365 * DAY])
def test_within_a_boot_only_the_uptime_counts(wall_jump: int) -> None:
    now = Reading("boot-a", 6 * HOUR, WALL + wall_jump, True)
    assert gateway_ms(SAVED, now) == 11 * HOUR
    assert gateway_ms(SAVED_UNSYNCED, now) == 11 * HOUR


@pytest.mark.parametrize(
    ("meta", "now", "gap"),
    [
        (SAVED, Reading("boot-b", 9000, WALL + 3 * HOUR, True), 3 * HOUR),
        (SAVED, Reading("boot-b", 9000, WALL + 3 * HOUR, False), 0),
        (SAVED_UNSYNCED, Reading("boot-b", 9000, WALL + 3 * HOUR, True), 0),
        (SAVED_UNSYNCED, Reading("boot-b", 9000, WALL + 3 * HOUR, False), 0),
        (SAVED, Reading("boot-b", 9000, WALL + 14 * DAY, True), 14 * DAY),
        (SAVED, Reading("boot-b", 9000, WALL + 14 * DAY, False), 0),
        (SAVED, Reading("boot-b", 9000, WALL - 365 * DAY, True), 0),
        (SAVED, Reading("boot-b", 9000, WALL - 365 * DAY, False), 0),
        (SAVED, Reading("boot-b", 9000, WALL - 1, True), 0),
        (SAVED, Reading("boot-b", 9000, WALL + 3650 * DAY, True), 3650 * DAY),
        (SAVED, Reading("boot-b", 9000, WALL + 3651 * DAY, True), 0),
    ],
)
def test_over_a_boot_the_wall_clock_counts_only_when_vouched_for(
    meta: dict[str, int | str], now: Reading, gap: int
) -> None:
    assert gateway_ms(meta, now) == 10 * HOUR + gap


def test_a_machine_without_a_boot_id_never_takes_two_boots_for_one() -> None:
    saved = stamp(Reading("", 5 * HOUR, WALL, False), 5 * HOUR)
    assert gateway_ms(saved, Reading("", 9000, WALL, False)) == 10 * HOUR


def test_gateway_time_never_goes_back_over_many_restarts() -> None:
    meta, seen = dict(SAVED), 10 * HOUR
    for number in range(20):
        now = Reading(f"boot-{number // 2}", 1000 * number + 1, WALL - number * DAY, number % 3 != 0)
        offset = offset_at_start(meta, now)
        assert now.boottime_ms + offset >= seen
        seen = now.boottime_ms + offset
        meta = stamp(now, offset)


def test_a_stamp_of_the_wrong_kind_is_no_stamp() -> None:
    now = Reading("boot-a", 7, WALL, True)
    assert offset_at_start({"clock.boot_id": "boot-a", "clock.offset_ms": "x", "clock.gateway_ms": "y"}, now) == 0


def test_the_clocks_of_this_machine() -> None:
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    now = clock.read_clocks()
    assert before <= now.boottime_ms <= clock.boottime_ms() <= before + 10_000
    assert now.boot_id == clock.boot_id()
    assert len(now.boot_id) == 36
    assert now.wall_ms > 1_500_000_000_000
    assert now.synced is clock.ntp_synchronised()


def test_the_kernel_structure_is_large_enough() -> None:
    assert ctypes.sizeof(clock._Timex) >= 208  # struct timex on 64-bit Linux
    assert clock._Timex.status.offset == (40 if ctypes.sizeof(ctypes.c_long) == 8 else 20)


def test_where_proc_is_hidden_the_environment_names_the_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = clock.boot_id()
    hidden = Path("/nowhere")
    monkeypatch.setattr(clock, "PROC_BOOT_ID", hidden)
    monkeypatch.delenv(clock.BOOT_ID, raising=False)
    assert clock.boot_id() == ""
    monkeypatch.setenv(clock.BOOT_ID, shown.replace("-", ""))
    assert clock.boot_id() == shown
    monkeypatch.setenv(clock.BOOT_ID, "%b")
    assert clock.boot_id() == ""


def test_where_the_clock_cannot_be_asked_timesyncd_has_the_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing:
        def adjtimex(self, timex: object) -> int:
            ctypes.set_errno(errno.EPERM)
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Refusing())
    monkeypatch.setattr(clock, "SYNCHRONISED", tmp_path / "synchronized")
    assert not clock.ntp_synchronised()
    (tmp_path / "synchronized").touch()
    assert clock.ntp_synchronised()

"""What is written over restarts and reboots, and how long the storage lasts."""

import json
from pathlib import Path

import pytest

from gateway.boards import board
from gateway.machine import Disk
from gateway.wear import DAY_MS, DAYS, KNOWN_MS, Wear, ask_smart, smart_used_percent

GB = 10**9


class Card:
    """A disk in a folder that the test writes to."""

    def __init__(self, folder: Path, name: str = "mmcblk0", kind: str = "SD") -> None:
        self.folder = folder / name
        (self.folder / "device").mkdir(parents=True)
        (self.folder / "device/type").write_text(kind)
        self.written = 0
        self.write(0)

    def write(self, count: int) -> None:
        self.written += count
        (self.folder / "stat").write_text(f"0 0 0 0 0 0 {self.written // 512} 0 0 0 0\n")

    def reboot(self) -> None:
        self.written = 0
        self.write(0)

    def wear(self, board_name: str = "pi-4", smart: Path = Path("/nowhere")) -> Wear:
        return Wear(Disk(self.folder), board(board_name), smart)


@pytest.fixture
def card(tmp_path: Path) -> Card:
    return Card(tmp_path)


def test_bytes_are_counted_from_the_first_start(card: Card) -> None:
    card.write(5 * GB)  # before there was a gateway
    wear = card.wear()
    wear.restore({}, "boot-1", 1000)
    card.write(GB)
    told = wear.report(1000 + DAY_MS // 2)
    assert told["total_bytes"] == pytest.approx(GB, abs=512)
    assert told["day_bytes"] == pytest.approx(2 * GB, abs=2048)
    assert (told["disk"], told["storage"]) == ("mmcblk0", "sd")


def test_sums_go_on_over_restarts_and_reboots(card: Card) -> None:
    wear = card.wear()
    wear.restore({}, "boot-1", 0)
    card.write(GB)
    rows = wear.rows(1000)
    card.write(GB)  # by others, while the gateway is away
    wear = card.wear()
    wear.restore(rows, "boot-1", 2000)
    assert wear.report(2000)["total_bytes"] == pytest.approx(2 * GB, abs=512)
    rows = wear.rows(3000)
    card.reboot()
    card.write(GB)  # by what starts before it
    wear = card.wear()
    wear.restore(rows, "boot-2", 4000)
    assert wear.report(4000)["total_bytes"] == pytest.approx(3 * GB, abs=512)


def test_another_card_begins_anew(card: Card) -> None:
    wear = card.wear()
    (card.folder / "device/cid").write_text("first")
    wear = card.wear()
    wear.restore({}, "boot", 0)
    card.write(GB)
    rows = wear.rows(1000)
    (card.folder / "device/cid").write_text("second")
    wear = card.wear()
    wear.restore(rows, "boot", 2000)
    assert wear.report(2000)["total_bytes"] == 0


@pytest.mark.parametrize("wrong", [{"wear.days": "x"}, {"wear.total_bytes": "much"}, {"wear.day_ms": "soon"}])
def test_rows_that_make_no_sense_begin_anew(card: Card, wrong: dict[str, str]) -> None:
    wear = card.wear()
    wear.restore({}, "boot", 0)
    card.write(GB)
    again = card.wear()
    again.restore(wear.rows(1000) | wrong, "boot", 2000)
    assert again.report(2000)["total_bytes"] == 0


def test_the_rate_is_that_of_the_last_days(card: Card) -> None:
    wear = card.wear()
    wear.restore({}, "boot", 0)
    assert wear.report(KNOWN_MS - 1)["day_bytes"] is None, "a start is no day"
    for day in range(20):
        card.write(9 * GB if day < 10 else GB)
        wear.rows(day * DAY_MS + DAY_MS // 2)
    told = wear.report(20 * DAY_MS - 1)
    assert told["day_bytes"] == pytest.approx(GB, rel=0.01)
    assert told["total_bytes"] == pytest.approx(100 * GB, rel=0.01)
    assert told["counted_s"] < DAYS * 86_400


def test_a_card_lasts_what_it_is_rated_for(card: Card) -> None:
    wear = card.wear()
    wear.restore({}, "boot", 0)
    card.write(10 * GB)
    told = wear.report(10 * DAY_MS)
    pi = board("pi-4")
    left = 1 - 10 * GB * pi.amplification / pi.endurance_bytes
    assert (told["life_left"], told["life_from"]) == (pytest.approx(left, abs=0.001), "endurance")
    day = told["day_bytes"]
    assert told["years_left"] == pytest.approx(left * pi.endurance_bytes / (day * pi.amplification) / 365, rel=0.01)


def test_an_emmc_says_itself_what_is_left(tmp_path: Path) -> None:
    card = Card(tmp_path, kind="MMC")
    (card.folder / "device/life_time").write_text("0x03 0x01")
    (card.folder / "device/pre_eol_info").write_text("0x02")
    wear = card.wear("cm4")
    wear.restore({}, "boot", 0)
    card.write(GB)
    told = wear.report(DAY_MS)
    assert (told["life_left"], told["life_from"], told["spares_low"]) == (0.7, "eMMC", True)
    assert told["years_left"] > 1


def test_the_rating_is_of_the_storage_that_is_in_use(tmp_path: Path) -> None:
    wear = Card(tmp_path).wear("pi-5")  # rated for NVMe, and here is a card
    wear.restore({}, "boot", 0)
    told = wear.report(DAY_MS)
    assert (told["life_left"], told["years_left"]) == (None, None)


@pytest.mark.parametrize(
    ("told", "used"),
    [
        ({"nvme_smart_health_information_log": {"percentage_used": 7}}, 7),
        ({"ata_smart_attributes": {"table": [{"name": "x"}, {"name": "Wear_Leveling_Count", "value": 93}]}}, 7),
        ({"ata_smart_attributes": {"table": []}}, -1),
        ({}, -1),
        ([], -1),
        ({"nvme_smart_health_information_log": 5}, -1),
    ],
)
def test_smartctl(tmp_path: Path, told: object, used: int) -> None:
    file = tmp_path / "smart.json"
    file.write_text(json.dumps(told))
    assert smart_used_percent(file) == used


def test_smartctl_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its exit status is not 0 where a disk is worn; what it said before stays when it says nothing."""
    tool, to = tmp_path / "smartctl", tmp_path / "smart.json"
    tool.write_text(
        '#!/bin/sh\necho "{\\"nvme_smart_health_information_log\\": {\\"percentage_used\\": 97}}"\nexit 64\n'
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert ask_smart("nvme0n1", to) == 97
    assert to.stat().st_mode & 0o777 == 0o644
    tool.write_text('#!/bin/sh\necho "$3: no such device" >&2\nexit 2\n')
    with pytest.raises(OSError, match="smartctl --json --attributes /dev/nvme0n1: /dev/nvme0n1: no such device"):
        ask_smart("nvme0n1", to)
    assert smart_used_percent(to) == 97


def test_smart_counts_for_an_ssd_only(tmp_path: Path) -> None:
    smart = tmp_path / "smart.json"
    smart.write_text('{"nvme_smart_health_information_log": {"percentage_used": 40}}')
    ssd, card = Card(tmp_path, "nvme0n1"), Card(tmp_path)
    for disk, left in ((ssd, 0.6), (card, 1.0)):
        wear = disk.wear(smart=smart)
        wear.restore({}, "boot", 0)
        assert wear.report(0)["life_left"] == left
    smart.write_text("torn {")
    assert smart_used_percent(smart) == -1


def test_without_a_disk_it_is_what_this_process_writes(tmp_path: Path) -> None:
    io = tmp_path / "io"
    io.write_text("wchar: 9\nwrite_bytes: 100\n")
    wear = Wear(None, None, io=io)
    wear.restore({}, "boot", 0)
    io.write_text("wchar: 9\nwrite_bytes: 1100\n")
    rows = wear.rows(1000)
    assert rows["wear.total_bytes"] == 1000
    io.write_text("write_bytes: 50\n")  # the next process
    wear = Wear(None, None, io=io)
    wear.restore(rows, "boot", 2000)
    told = wear.report(2000)
    assert told["total_bytes"] == 1050
    assert (told["disk"], told["life_left"]) == (None, None)

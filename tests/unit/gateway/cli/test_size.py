"""``forebay size``: given and measured rates, and settings written."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.options import UsageError
from gateway.cli.size import measured
from gateway.doctor.size import Load
from tests.command import Forebay
from tests.harness import Broker
from tests.wire import Wire


def test_given_rates(forebay: Forebay) -> None:
    code, out, err = forebay("size", "--rate", "50", "--payload", "200", "--board", "pi-4", "--outage", "3d")
    assert (code, err) == (0, "")
    for word in ("store.max_bytes", "years", "RAM", "drained in", "Raspberry Pi 4", "12960000 messages"):
        assert word in out, word


def test_json_and_what_does_not_fit(forebay: Forebay) -> None:
    code, out, _ = forebay(
        "size", "--rate", "1000", "--payload", "10000", "--outage", "7d", "--board", "pi-4", "--json"
    )
    told = json.loads(out)
    assert code == 1
    assert told["fits"] is False
    assert told["load"]["rate"] == 1000
    assert told["longest_s"] < 7 * 86_400


def test_endurance_of_the_part_in_use(forebay: Forebay) -> None:
    usual = json.loads(forebay("size", "--rate", "50", "--json").out)
    other = json.loads(forebay("size", "--rate", "50", "--endurance", "10TiB", "--json").out)
    assert other["years"] < usual["years"]


def test_written_to_the_file(forebay: Forebay, tmp_path: Path) -> None:
    file = tmp_path / "forebay.toml"
    file.write_text("# ours\nstore.max_bytes = 2000000\n")
    assert forebay("size", "--rate", "50", "--write", "-c", str(file)).code == 0
    assert tomllib.loads(file.read_text())["store"]["max_bytes"].endswith("MiB")
    assert "# ours" in file.read_text()
    assert forebay("config", "check", "-c", str(file)).code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--rate"),
        (("--rate", "1", "--board", "cray"), "--board cray: expected one of beaglebone"),
        (("--rate", "1", "--endurance", "much"), "--endurance much: expected"),
        (("--rate", "1", "--outage", "0"), "--outage 0: expected"),
        (("--rate", "1", "--write"), "--config"),
    ],
)
def test_wrong_usage_is_one_line(forebay: Forebay, arguments: tuple[str, ...], words: str) -> None:
    result = forebay("size", *arguments)
    assert result.code == 2
    assert words in result.err and result.err.count("\n") == 1


def test_measured_on_a_running_broker(forebay: Forebay, tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker:
        data = ("--data-dir", str(tmp_path / "data"))
        result = forebay("size", "--measure", "1s", *data)
        assert result.code == 2
        assert "nothing was published" in result.err
        with Wire.connect(broker.port, "h", clean=False) as wire:
            wire.subscribe("#", qos=1)
    assert forebay("size", "--measure", "1s", *data).code == 3


def test_between_two_statuses() -> None:
    def status(count: int, size: int) -> dict[str, Any]:
        counters = {f"received_qos{qos}": count if qos == 1 else 0 for qos in (0, 1, 2)}
        counters |= {f"received_bytes_qos{qos}": size if qos == 1 else 0 for qos in (0, 1, 2)}
        return {"counters": counters, "connections": 7, "sessions": {"persistent": 2}}

    found = measured(Load(rate=0, payload=0, collectors=3), status(10, 1000), status(110, 21_000), 10)
    assert (found.rate, found.payload, found.connections, found.collectors) == (10, 200, 7, 2)
    with pytest.raises(UsageError, match="nothing was published"):
        measured(Load(rate=0, payload=0), status(10, 1000), status(10, 1000), 10)

"""``forebay sparkplug probe``: what it refuses, and that it asks first. What it finds: tests/system/test_probe.py."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.bridge.probe import Findings
from gateway.bridge.verdict import draft, judge
from gateway.cli.probe import _write
from gateway.profiles import read
from sparkplug.datatypes import DataType
from sparkplug.model import Metric, Payload
from sparkplug.payload import encode
from tests import wire_format as mqtt
from tests.command import Forebay
from tests.harness import Broker
from tests.wire import Wire

WILL = mqtt.Will("spBv1.0/plant/NDEATH/press", encode(Payload(1, [Metric("bdSeq", None, None, DataType.Int64, 0)])), 1)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("probe") / "data") as made:
        yield made


@pytest.fixture
def data(broker: Broker) -> tuple[str, str]:
    return "--data-dir", str(broker.data_dir)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("plant",), "plant: expected GROUP/NODE"),
        (("plant/",), "plant/: expected GROUP/NODE"),
        (("plant/press", "--step", "explode"), "--step explode: expected one of acknowledge, outage"),
        (("plant/press", "--out", "."), ".: is there already; --force writes over it"),
        (("plant/press", "--reconnect", "0"), "reconnect"),
        *(
            (("plant/press", option, value), f"'{option}'")
            for option in ("--overflow", "--reconnect", "--settle", "--outage")
            for value in ("nan", "inf", "-1")
        ),
    ],
)
def test_bad_arguments_are_one_line(
    forebay: Forebay, data: tuple[str, str], arguments: tuple[str, ...], said: str
) -> None:
    code, out, err = forebay("sparkplug", "probe", *arguments, *data)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_a_profile_that_is_there_is_not_probed_for_in_vain(
    forebay: Forebay, data: tuple[str, str], tmp_path: Path
) -> None:
    (tmp_path / "plant-press.toml").touch()
    code, _, err = forebay("sparkplug", "probe", "plant/press", *data)
    assert (code, err) == (2, "forebay: plant-press.toml: is there already; --force writes over it\n")


def test_without_a_broker(forebay: Forebay, tmp_path: Path) -> None:
    assert forebay("sparkplug", "probe", "plant/press", "--data-dir", str(tmp_path)).code == 3


def test_a_node_that_is_not_there(forebay: Forebay, data: tuple[str, str]) -> None:
    code, _, err = forebay("sparkplug", "probe", "plant/press", *data)
    assert code == 1
    assert err.startswith("forebay: plant/press: no client with the id or with a will on spBv1.0/plant/NDEATH/press")
    assert err.count("\n") == 1


def test_nothing_happens_without_leave(forebay: Forebay, broker: Broker, data: tuple[str, str], tmp_path: Path) -> None:
    with Wire.connect(broker.port, "press-1", will=WILL) as press:
        code, out, err = forebay("sparkplug", "probe", "plant/press", *data, stdin=b"n\n")
        assert code == 1
        assert "plant/press: client press-1 from 127.0.0.1:" in err
        assert "will be disconnected several times" in err
        assert out == "plant/press: unknown, confidence none\n  ended early: it was not allowed\n"
        press.ping()
    assert list(tmp_path.glob("*.toml")) == []


def test_no_answer_stops_it(forebay: Forebay, broker: Broker, data: tuple[str, str]) -> None:
    with Wire.connect(broker.port, "press-1", will=WILL) as press:
        code, _, err = forebay("sparkplug", "probe", "plant/press", *data)
        assert code == 1
        assert err.endswith("forebay: stopped\n")
        press.ping()


def test_a_device_that_stays_away_is_unknown_and_gets_no_profile(
    forebay: Forebay, broker: Broker, data: tuple[str, str], tmp_path: Path
) -> None:
    with Wire.connect(broker.port, "press-1", will=WILL) as press:
        code, out, _ = forebay("sparkplug", "probe", "plant/press", "--yes", "--reconnect", "1", "--json", *data)
        press.expect_closed()
    answer = json.loads(out)
    assert (code, answer["verdict"]) == (1, "unknown")
    assert answer["findings"]["failed"] == "it did not come back within 1 s"
    assert list(tmp_path.glob("*.toml")) == []
    with Wire.connect(broker.port, "press-1", will=WILL) as press:
        press.ping()


def test_a_profile_is_written_where_it_is_asked_for(tmp_path: Path) -> None:
    findings = Findings(qos={"NDATA": 0})
    _write(draft("g/e", findings, judge(findings), {}, False, "2026-11-30"), tmp_path / "g-e.toml")
    assert read(tmp_path / "g-e.toml").evidence.verdict == "qos0_lossy"

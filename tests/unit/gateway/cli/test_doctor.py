"""``forebay doctor``, against a running broker."""

import json
from pathlib import Path

from tests import wire_format as mqtt
from tests.command import Forebay
from tests.harness import Broker
from tests.wire import Wire


def test_findings_text_json_and_exit_codes(forebay: Forebay, tmp_path: Path) -> None:
    data = ("--data-dir", str(tmp_path / "data"))
    with Broker(tmp_path / "data") as broker:
        assert forebay("doctor", *data).code == 0
        with (
            Wire.connect(broker.port, "historian", clean=False) as historian,
            Wire.connect(broker.port, "plc", clean=False) as plc,
        ):
            historian.subscribe("line/#", qos=1)
            plc.publish_done("line/1", b"x", qos=1)
            code, out, err = forebay("doctor", *data)
            assert (code, err) == (0, "")
            assert "line/1" in out and "1 -> 1 = 1" in out
            plc.publish("line/2", b"x")
            plc.ping()
            code, out, _ = forebay("doctor", *data, "--outage", "2d")
            assert code == 4
            assert "error: plc publishes line/2 at QoS 0 [publish_qos0]" in out
            assert "set: QoS = 1" in out and "publisher, plc at 127.0.0.1" in out
            assert "outage of 2 d" in out
            report = json.loads(forebay("doctor", *data, "--json").out)
            assert report["counts"]["error"] == 1
            assert {tuple(flow["topics"]): flow["buffered"] for flow in report["flows"]} == {
                ("line/1",): "yes", ("line/2",): "no",
            }  # fmt: skip


def test_a_warning_alone_is_exit_code_1(forebay: Forebay, tmp_path: Path) -> None:
    with Broker(tmp_path / "data", {"durability": "os"}):
        code, out, _ = forebay("doctor", "--data-dir", str(tmp_path / "data"))
        assert code == 1
        assert "durability_os" in out


def test_wrong_options_and_no_broker_are_one_line(forebay: Forebay, tmp_path: Path) -> None:
    data = ("--data-dir", str(tmp_path / "data"))
    code, out, err = forebay("doctor", *data, "--outage", "soon")
    assert (code, out) == (2, "")
    assert err.startswith("forebay: --outage soon: expected seconds")
    assert forebay("doctor", *data).code == 3


def test_a_client_that_asks_for_no_expiry(forebay: Forebay, tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker:
        with Wire.connect(broker.port, "h", version=5, clean=False, props=[(mqtt.SESSION_EXPIRY, 0)]) as wire:
            wire.subscribe("#", qos=1)
            report = json.loads(forebay("doctor", "--data-dir", str(tmp_path / "data"), "--json").out)
    assert [f["code"] for f in report["findings"] if f["severity"] != "note"] == ["collector_no_expiry"]

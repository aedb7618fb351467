"""What the broker says of itself over the control socket."""

from pathlib import Path

import pytest

from gateway.cli.control import RefusedError, ask
from gateway.status import SESSIONS_MAX, compiled
from tests.harness import Broker
from tests.page import status_of
from tests.wire import Wire


def test_a_report_holds_the_status_and_what_was_before(tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker:
        path = broker.data_dir / "control.sock"
        with Wire.connect(broker.port, "one", clean=False) as wire:
            wire.subscribe("t", qos=1)
            wire.publish_done("t", b"x", qos=1)
            wire.take(1)
            wire.ping()
            report = ask(path, {"cmd": "report", "sessions": 5, "log_after": 0})
        assert report["pid"] == broker.pid
        assert report["status"]["version"] == status_of(broker)["version"]
        assert report["before"]["counters"]["received_qos1"] == 0
        assert report["status"]["counters"]["received_qos1"] == 1
        assert [row["client_id"] for row in report["sessions"]] == ["one"]
        assert sum(report["commit_ms"]["counts"]) == report["status"]["store"]["commits"]
        number, _, level, text = report["log"][0]
        assert (number, level) == (1, "info")
        assert "listening" in text
        assert ask(path, {"cmd": "report", "log_after": number})["log"] == []
        assert broker.sigterm() == 0
        broker.start()
        later = ask(path, {"cmd": "report"})
        assert later["before"]["counters"]["received_qos1"] == 1
        assert later["sessions"] == []


def test_numbers_are_numbers(tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker:
        for wrong in ("5", -1, None, True, 1.5):
            with pytest.raises(RefusedError, match="whole numbers"):
                ask(broker.data_dir / "control.sock", {"cmd": "report", "sessions": wrong})
        assert ask(broker.data_dir / "control.sock", {"cmd": "report", "sessions": SESSIONS_MAX * 9})["sessions"] == []


def test_a_reload_says_what_counts_from_the_next_start(tmp_path: Path) -> None:
    config = tmp_path / "forebay.toml"
    config.write_text("")
    with Broker(tmp_path / "data", arguments=["--config", str(config)]) as broker:
        path = broker.data_dir / "control.sock"
        config.write_text('durability = "os"\nmqtt.max_inflight = 7\n')
        assert ask(path, {"cmd": "reload"}) == ["durability"]
        config.write_text("nothing = 1\n")
        with pytest.raises(RefusedError, match="unknown key"):
            ask(path, {"cmd": "reload"})


def test_the_build_is_told(tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker:
        assert status_of(broker)["compiled"] is compiled()

"""``forebay status``, against a running broker."""

import json
from pathlib import Path

import pytest

from tests.command import Forebay
from tests.harness import Broker, free_port
from tests.wire import Wire


def test_what_waits_and_what_was_dropped_is_shown(forebay: Forebay, tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker:
        with Wire.connect(broker.port, "away", clean=False) as wire:
            wire.subscribe("t/#", qos=1)
        with Wire.connect(broker.port, "pub") as wire:
            for _ in range(3):
                wire.publish_done("t/a", b"kept", qos=1)
            wire.publish_done("$delayed/600/t/a", b"late", qos=1)
            wire.publish("t/a", b"dropped")
            wire.ping()
            code, out, err = forebay("status", "--data-dir", str(tmp_path / "data"), "--json")
            answer = json.loads(out)
            assert (code, err) == (0, "")
            assert answer["connections"] == 1
            assert answer["sessions"] == {"total": 2, "connected": 1, "persistent": 1}
            assert answer["queue"]["messages"] == 3
            assert sum(answer["drops"].values()) == 1
            assert answer["delayed"]["messages"] == 1
            assert answer["store"]["error"] is None
            assert answer["store"]["commits"] > 0
            shown = forebay("status", "--data-dir", str(tmp_path / "data")).out
        assert f"127.0.0.1:{broker.port}" in shown
        assert "3 messages" in shown
        late = next(line for line in shown.splitlines() if line.startswith("delayed"))
        assert "1 messages, " in late
        assert late.rstrip().endswith((" in 10 min", " in 9 min"))


def test_an_engine_that_is_down_is_named_with_what_waits_for_it(forebay: Forebay, tmp_path: Path) -> None:
    pytest.importorskip("nats")
    address = f"nats://127.0.0.1:{free_port()}"
    settings = {"application_log.engine": "nats", "application_log.nats.servers": address}
    with Broker(tmp_path / "data", settings) as broker, Wire.connect(broker.port, "pub") as wire:
        wire.publish_done("t/a", b"kept", qos=1)
        shown = forebay("status", "--data-dir", str(tmp_path / "data")).out
        line = " ".join(shown.partition("engine nats")[2].partition("\nclock")[0].split())
        assert line.startswith(("down, 1 messages wait for it", "connecting, 1 messages wait for it"))
        assert address in line


def test_no_broker_is_3(forebay: Forebay, tmp_path: Path) -> None:
    code, out, err = forebay("status")
    assert (code, out) == (3, "")
    assert (
        err
        == "forebay: no broker is running with var as its data folder (var/control.sock: No such file or directory)\n"
    )

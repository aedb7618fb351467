"""The broker's half: what the settings say comes along, and nothing that judges is loaded for it."""

import subprocess
import sys
from pathlib import Path

from gateway.cli.control import ask
from tests.harness import Broker, beside_env


def test_settings_and_state_of_the_gateway(tmp_path: Path) -> None:
    with Broker(
        tmp_path / "data", {"durability": "os", "mqtt.session_expiry_interval": 60, "mqtt.max_inflight": 7}
    ) as broker:
        told = ask(broker.data_dir / "control.sock", {"cmd": "doctor"})["gateway"]
    assert (told["durability"], told["session_expiry_s"], told["max_inflight"]) == ("os", 60, 7)
    assert told["max_session_expiry_s"] is None
    assert 0 < told["store_free"]
    assert told["message_bytes"] == 0


def test_the_broker_loads_nothing_that_judges() -> None:
    line = "import sys, gateway.doctor.telling as t; print([m for m in sys.modules if m.startswith('gateway.doctor')])"
    shown = subprocess.run([sys.executable, "-c", line], env=beside_env(), capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "['gateway.doctor', 'gateway.doctor.snapshot', 'gateway.doctor.telling']"

"""``--watch`` in a real process, ended by Ctrl-C, beside a gateway that serves."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import Broker
from tests.wire import Wire


def watched(broker: Broker, *words: str) -> tuple[list[str], int]:
    """The first three lines of a command, and how it ends."""
    command = [sys.executable, "-m", "gateway", *words, "--data-dir", str(broker.data_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=broker.environment()) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        return lines, process.wait(60)


@pytest.mark.parametrize("words", [("status", "--watch", "0.1"), ("sessions", "watch", "--every", "0.1")])
def test_again_until_interrupted(tmp_path: Path, words: tuple[str, ...]) -> None:
    with Broker(tmp_path / "data") as broker, Wire.connect(broker.port, "someone"):
        lines, code = watched(broker, *words, "--json")
        assert code == 0
        assert all(json.loads(line) for line in lines)
        lines, code = watched(broker, *words)
        assert code == 0
        assert any(word in "".join(lines) for word in ("forebay", "someone"))

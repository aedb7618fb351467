"""The examples of docs/consumer.md, run as they are written but for the port."""

import json
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests import wire_format as mqtt
from tests.harness import REPO, Broker
from tests.waiting import TIMEOUT_S, until
from tests.wire import Wire

EXAMPLES = re.findall(r"^```python\n(.*?)^```", (REPO / "docs" / "consumer.md").read_text(), re.MULTILINE | re.DOTALL)


def rows(database: sqlite3.Connection) -> list[tuple[int, float]]:
    return database.execute("SELECT press, celsius FROM readings ORDER BY celsius").fetchall()


def started(broker: Broker, path: Path) -> "subprocess.Popen[bytes]":
    line = [sys.executable, "-m", "gateway", "consume", "presses:app"]
    return subprocess.Popen(line, cwd=path, env=broker.environment())


async def test_the_first_example_archives_retries_and_buries(tmp_path: Path) -> None:
    code = EXAMPLES[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    with Broker(tmp_path / "data") as broker, Wire.connect(broker.port, "pub", version=5) as wire:
        (tmp_path / "presses.py").write_text(code.replace("127.0.0.1:1883", f"127.0.0.1:{broker.port}"))
        wire.subscribe("dead/press", qos=1)
        process = started(broker, tmp_path)
        try:
            first = json.dumps({"press": 7, "celsius": 21.5}).encode()
            await until(lambda: wire.publish_done("press/7/temp", first)["code"] == 0)
            database = sqlite3.connect(tmp_path / "presses.db", isolation_level=None, timeout=30)
            await until(lambda: rows(database) == [(7, 21.5)])
            database.execute("BEGIN IMMEDIATE")
            wire.publish_done("press/8/temp", json.dumps({"press": 8, "celsius": 22.5}).encode())
            wire.publish_done("press/9/temp", b"?")
            packet = wire.take(1, TIMEOUT_S)[0]  # those before it were tried by then
            assert (packet["topic"], packet["payload"], packet.prop(mqtt.USER_PROPERTY)) == ("dead/press", b"?", None)
            database.execute("COMMIT")
            await until(lambda: rows(database) == [(7, 21.5), (8, 22.5)])
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(TIMEOUT_S) == 0


def test_the_test_of_the_example_passes(tmp_path: Path) -> None:
    (tmp_path / "presses.py").write_text(EXAMPLES[0])
    (tmp_path / "test_presses.py").write_text(EXAMPLES[1])
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\npythonpath = .\n")
    environment = Broker(tmp_path / "data").environment() | {"PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_presses.py"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("code", EXAMPLES)
def test_examples_compile(code: str) -> None:
    compile(code, "docs/consumer.md", "exec")

"""``forebay consume``."""

import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import Forebay
from tests.harness import Broker, free_port
from tests.wire import Wire

PROGRAM = """
from gateway.consumer.app import Consumer, MqttFilter, retry

app = Consumer("mqtt://127.0.0.1:{port}", client_id="{name}")

@app.subscribe(MqttFilter("{name}/#"), qos=2)
async def archive(message):
    print(message.topic, message.payload.decode(), flush=True)
    if message.payload == b"fail":
        raise ValueError("no")
"""


def program(name: str, text: str) -> None:
    Path(f"{name}.py").write_text(text)


def test_check_tells_what_would_be_subscribed_to(forebay: Forebay) -> None:
    program("con_check", PROGRAM.format(port=1, name="con"))
    assert forebay("consume", "--check", "con_check:app") == (0, "con/# (QoS 2): archive\n", "")


@pytest.mark.parametrize(
    ("name", "text", "target", "line"),
    [
        ("con_a", "", "con_a", '"con_a": expected MODULE:APP'),
        ("con_b", "", "con_b:app", '"con_b:app": the module has no app'),
        ("con_h", "''.no", "con_h:app", '"con_h:app": the module cannot be imported: AttributeError: '),
        ("con_c", "app = 5", "con_c:app", '"con_c:app": expected a Consumer, found int'),
        ("con_d", "import con_none", "con_d:app", "\"con_d:app\": No module named 'con_none'"),
        ("con_e", "1 / 0", "con_e:app", '"con_e:app": the module cannot be imported: ZeroDivisionError'),
        ("con_f", PROGRAM.format(port="x", name="con"), "con_f:app", 'con_f:app: url "mqtt://127.0.0.1:x": expected'),
        ("con_g", 'from gateway.consumer.app import Consumer\napp = Consumer("mqtt://x", client_id="c")', "con_g:app",
         "con_g:app: nothing is subscribed to"),
    ],
)  # fmt: skip
def test_what_cannot_start_is_one_line(forebay: Forebay, name: str, text: str, target: str, line: str) -> None:
    program(name, text)
    result = forebay("consume", target)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"forebay: {line}")
    assert result.err.count("\n") == 1


def test_a_form_of_lines_that_is_none(forebay: Forebay) -> None:
    assert forebay("consume", "--log", "xml", "x:y").err == 'forebay: --log "xml": expected text or json\n'


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker") / "data") as started:
        yield started


def started(broker: Broker, path: Path, *options: str) -> "subprocess.Popen[str]":
    (path / "con.py").write_text(PROGRAM.format(port=broker.port, name=path.name))
    environment = broker.environment()
    return subprocess.Popen(
        [sys.executable, "-m", "gateway", "consume", *options, "con:app"], cwd=path, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def test_it_runs_until_it_is_told_to_stop(broker: Broker, tmp_path: Path) -> None:
    name = tmp_path.name
    with started(broker, tmp_path, "--log", "json", "--json") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = json.loads(process.stderr.readline())
        assert first["text"].startswith("connected to")
        assert first["session_present"] is False
        with Wire.connect(broker.port, "pub") as wire:
            wait_for_reader(broker, name)
            wire.publish_done(f"{name}/1", b"hello", 1)
        while (line := process.stdout.readline()).startswith(f"{name} "):  # of wait_for_reader
            pass
        assert line == f"{name}/1 hello\n"
        process.send_signal(signal.SIGTERM)
        counts = json.loads(process.stdout.readline())
        assert process.wait(60) == 0
    assert counts["handlers"]["archive"]["acked"] >= 1
    assert counts["connected"] is False


def wait_for_reader(broker: Broker, name: str) -> None:
    """Until the broker says that somebody subscribes; PUBACK 0x10 says that nobody does."""
    deadline = time.monotonic() + 30
    with Wire.connect(broker.port, "probe", version=5) as probe:
        while probe.publish_done(name, b"", 1)["code"] == 0x10:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_a_failure_is_exit_code_1_and_one_line(broker: Broker, tmp_path: Path) -> None:
    with started(broker, tmp_path) as process:
        with Wire.connect(broker.port, "pub") as wire:
            wait_for_reader(broker, tmp_path.name)
            wire.publish_done(f"{tmp_path.name}/1", b"fail", 1)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"{tmp_path.name}/1 fail" in out
    assert err.splitlines()[-1] == "forebay: con:app: archive: the handler failed: no"


def test_metrics_are_served(broker: Broker, tmp_path: Path) -> None:
    port = free_port()
    with started(broker, tmp_path, "--metrics", str(port)) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("info connected to")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            text = answer.read().decode()
        process.terminate()
        assert process.wait(60) == 0
    assert "forebay_consumer_receive_maximum 200.0" in text

"""``forebay queue``, beside a gateway that serves."""

import json
from pathlib import Path

import pytest

from tests import wire_format as mqtt
from tests.command import Forebay
from tests.harness import Broker
from tests.wire import Wire


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    broker = Broker(tmp_path / "data")
    with broker, Wire.connect(broker.port, "s", clean=False) as wire:
        wire.subscribe("#", qos=1)
        with Wire.connect(broker.port, "pub", 5) as five:
            five.publish_done("text", "µ\x1b[31m".encode(), qos=1)
            five.publish_done("bytes", b"\xff\x00", qos=1)
            five.publish_done("rich", b"x", qos=1, props=[(0x03, "a/b"), (mqtt.USER_PROPERTY, ("k", "v"))])
    return broker


def test_peek(forebay: Forebay, broker: Broker) -> None:
    data = ("--data-dir", str(broker.data_dir))
    out = forebay("queue", "peek", "s", *data).out
    assert "\x1b" not in out and "\\x1b[31m" in out
    rows = json.loads(forebay("queue", "peek", "s", *data, "--json").out)
    assert [row["topic"] for row in rows] == ["text", "bytes", "rich"]
    assert rows[1]["payload_base64"] == "/wA="
    assert rows[2]["properties"] == {"content_type": "a/b", "user_properties": [["k", "v"]]}
    assert [row["topic"] for row in json.loads(forebay("queue", "peek", "s", *data, "--json", "-n", "1").out)] == [
        "text"
    ]


def test_export(forebay: Forebay, broker: Broker, tmp_path: Path) -> None:
    data = ("--data-dir", str(broker.data_dir))
    file = tmp_path / "waiting.jsonl"
    assert forebay("queue", "export", "s", str(file), *data).out == f"{file}: 3 messages\n"
    lines = file.read_text().splitlines()
    assert forebay("queue", "export", "s", *data).out.splitlines() == lines
    assert json.loads(lines[0])["payload"] == "µ\x1b[31m"
    code, _, err = forebay("queue", "export", "s", str(file), *data)
    assert (code, err) == (1, f"forebay: {file}: is there already\n")


def test_no_such_queue_is_one_line(forebay: Forebay, broker: Broker) -> None:
    code, out, err = forebay("queue", "peek", "nobody", "--data-dir", str(broker.data_dir))
    assert (code, out) == (1, "")
    assert "nobody: no session or group" in err and err.count("\n") == 1

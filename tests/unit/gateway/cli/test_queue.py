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


def test_drop_asks_counts_and_leaves_who_is_there(forebay: Forebay, broker: Broker) -> None:
    data = ("--data-dir", str(broker.data_dir))
    assert forebay("queue", "drop", "s", "--yes", *data).code == 3, "no gateway runs"
    with broker:
        code, _, err = forebay("queue", "drop", "s", *data, stdin=b"n\n")
        assert code == 1 and "Drop 3 messages of s" in err
        assert forebay("queue", "drop", "s", *data, stdin=b"y\n").out.strip() == "s: 3 messages dropped"
        assert json.loads(forebay("sessions", "show", "s", *data, "--json").out)["drops"] == {"discarded": 3}
        assert forebay("queue", "drop", "nobody", "--yes", *data).code == 1
        with Wire.connect(broker.port, "s", clean=False):
            code, _, err = forebay("queue", "drop", "s", "--yes", *data)
            assert code == 1 and "s is connected" in err and err.count("\n") == 1


def test_replay_publishes_what_was_exported(forebay: Forebay, broker: Broker, tmp_path: Path) -> None:
    data, file = ("--data-dir", str(broker.data_dir)), tmp_path / "waiting.jsonl"
    forebay("queue", "export", "s", str(file), *data)
    with broker, Wire.connect(broker.port, "again", 5) as wire:
        wire.subscribe("replay/#", qos=1)
        result = forebay("queue", "replay", str(file), "--prefix", "replay/", "--port", str(broker.port))
        assert (result.code, result.out) == (0, f"{file}: 3 messages published\n"), result.err
        got = wire.take(3)
    assert [packet["topic"] for packet in got] == ["replay/text", "replay/bytes", "replay/rich"]
    assert [packet["payload"] for packet in got] == ["µ\x1b[31m".encode(), b"\xff\x00", b"x"]
    assert (mqtt.USER_PROPERTY, ("k", "v")) in list(got[2]["props"])


@pytest.mark.parametrize(
    "line", ["no json", "[]", '{"topic": "a"}', '{"topic": "a/#", "qos": 1, "payload": "", "retain": false}']
)
def test_a_file_that_is_none_is_refused_before_anything_is_sent(forebay: Forebay, tmp_path: Path, line: str) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text(line + "\n")
    code, out, err = forebay("queue", "replay", str(file))
    assert (code, out) == (1, "")
    assert err == f"forebay: {file}: line 1: expected a message as forebay queue export writes it\n"

"""``forebay sessions``, against a running broker."""

import json
from pathlib import Path

from tests.command import Forebay
from tests.harness import Broker
from tests.wire import Wire


def test_show_tells_what_waits_under_each_priority(forebay: Forebay, tmp_path: Path) -> None:
    data = ("--data-dir", str(tmp_path / "data"))
    with Broker(tmp_path / "data", {"mqtt.mqueue_priorities": "a/alarm=200"}) as broker:
        with Wire.connect(broker.port, "s", clean=False) as wire:
            wire.subscribe("#", qos=1)
        with Wire.connect(broker.port, "pub") as wire:
            for topic in ("a/alarm", "a/alarm", "b"):
                wire.publish_done(topic, b"x", qos=1)
        shown = forebay("sessions", "show", "s", *data).out
        assert "3 messages" in shown
        lines = {line.split("  ")[0]: line for line in shown.splitlines()}
        assert "2 messages" in lines["priority 200"] and "0 dropped" in lines["priority 200"]
        assert "1 messages" in lines["other topics"]
        row = json.loads(forebay("sessions", "show", "s", *data, "--json").out)
        assert [(rank["priority"], rank["queue_messages"]) for rank in row["priorities"]] == [(200, 2), (0, 1)]


def test_list_show_remove(forebay: Forebay, tmp_path: Path) -> None:
    data = ("--data-dir", str(tmp_path / "data"))
    with Broker(tmp_path / "data") as broker:
        for name, messages in (("few", 1), ("many", 3)):
            with Wire.connect(broker.port, name, clean=False) as wire:
                wire.subscribe(f"{name}/#", qos=1)
            with Wire.connect(broker.port, "pub") as wire:
                for _ in range(messages):
                    wire.publish_done(f"{name}/a", b"x", qos=1)
        rows = json.loads(forebay("sessions", "list", *data, "--json").out)
        assert {row["client_id"]: row["queue_messages"] for row in rows} == {"few": 1, "many": 3}
        shown = forebay("sessions", "list", *data).out.splitlines()
        assert [line.split()[0] for line in shown[1:]] == ["many", "few"], "the longest queue first"
        row = json.loads(forebay("sessions", "show", "many", *data, "--json").out)
        assert (row["persistent"], row["connected"]) == (True, False)
        assert row["subscriptions"][0]["filter"] == "many/#"
        shown_one = forebay("sessions", "show", "many", *data).out
        assert "many/# (QoS 1)" in shown_one
        assert "3 messages" in shown_one
        assert "path" not in shown_one
        with Wire.connect(broker.port, "many", clean=False):
            assert "device" in forebay("sessions", "show", "many", *data).out
        assert forebay("sessions", "remove", "many", *data) == (0, "many: removed\n", "")
        rows = json.loads(forebay("sessions", "list", *data, "--json").out)
        assert [row["client_id"] for row in rows] == ["few"]
        code, out, err = forebay("sessions", "remove", "many", *data)
        assert (code, out) == (1, "")
        assert "many" in err
        assert err.count("\n") == 1
        assert forebay("sessions", "show", "none", *data).code == 1

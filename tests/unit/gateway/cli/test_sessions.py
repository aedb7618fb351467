"""``forebay sessions``, against a running broker."""

import json
from pathlib import Path

from tests.command import Forebay
from tests.harness import Broker
from tests.wire import Wire


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

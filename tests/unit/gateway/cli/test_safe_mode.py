"""``forebay safe-mode``, against a running broker."""

import json
from pathlib import Path

from tests.command import Forebay
from tests.harness import Broker


def test_shown_and_left(forebay: Forebay, tmp_path: Path) -> None:
    broker = Broker(tmp_path / "data", {"safe_mode.crashes": 1, "safe_mode.within": "10m"})
    there = ("--data-dir", str(broker.data_dir))
    with broker.start():
        assert forebay("safe-mode", "show", *there) == (0, "not in safe mode\n", "")
        assert forebay("safe-mode", "show", *there, "--json").out == "null\n"
        code, _, err = forebay("safe-mode", "leave", *there)
        assert (code, err) == (1, "forebay: this is not safe mode\n")
        broker.kill9()
        broker.start()
        code, out, _ = forebay("safe-mode", "show", *there)
        assert code == 1
        assert out.startswith("after 1 crashes, with the settings as they are, uplinks held; ends in")
        code, out, _ = forebay("safe-mode", "show", *there, "--json")
        assert (code, json.loads(out)["crashes"]) == (1, 1)
        assert "SAFE MODE" in forebay("status", *there).out
        assert forebay("safe-mode", "leave", *there) == (0, "left safe mode\n", "")
        assert forebay("safe-mode", "show", *there).code == 0
    code, _, err = forebay("safe-mode", "show", *there)
    assert (code, err.count("\n")) == (3, 1)

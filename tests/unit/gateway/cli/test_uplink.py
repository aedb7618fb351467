"""``forebay uplink list``, ``pause``, ``resume`` and ``drain``: a running gateway with another at the far end."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command import Forebay
from tests.harness import Broker
from tests.system.disks import until
from tests.wire import Wire

Pair = tuple[Broker, Broker]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """The gateway with the uplink "far", and what it leads to."""
    with Broker(tmp_path / "far") as far:
        row = {
            "name": "far",
            "addresses": [f"mqtt://127.0.0.1:{far.port}"],
            "rules": [{"direction": "out", "filter": "t/#"}],
            "heartbeat": 1,
        }
        with Broker(tmp_path / "data", {"uplink": json.dumps([row])}) as near:
            yield near, far


def rows(forebay: Forebay, near: Broker) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(forebay("uplink", "list", "--json", "--data-dir", str(near.data_dir)).out)
    return found


def in_state(forebay: Forebay, near: Broker, state: str) -> None:
    until(lambda: rows(forebay, near)[0]["state"] == state, state, 30)


def test_list_shows_how_it_goes(forebay: Forebay, pair: Pair) -> None:
    near, far = pair
    in_state(forebay, near, "forwarding")
    shown = forebay("uplink", "list", "--data-dir", str(near.data_dir)).out
    heading, line = shown.splitlines()
    assert heading.split()[:3] == ["name", "state", "address"]
    assert line.split()[:2] == ["far", "forwarding"]
    assert f"mqtt://127.0.0.1:{far.port}" in line
    assert "uplink far" in forebay("status", "--data-dir", str(near.data_dir)).out


def test_paused_it_keeps_what_comes_and_resumed_it_drains(forebay: Forebay, pair: Pair) -> None:
    near, far = pair
    data = ("--data-dir", str(near.data_dir))
    in_state(forebay, near, "forwarding")
    assert forebay("uplink", "pause", "far", *data) == (0, "far: paused\n", "")
    with Wire.connect(near.port, "pub") as wire:
        for number in range(3):
            wire.publish_done("t/a", b"%d" % number, qos=1)
    near.kill9()
    near.start()
    (row,) = rows(forebay, near)
    assert (row["state"], row["queue_messages"]) == ("paused", 3)
    code, out, err = forebay("uplink", "drain", "far", "--timeout", "0.1", *data)
    assert (code, out) == (1, "")
    assert "3 messages still wait" in err
    with Wire.connect(far.port, "sub") as sub:
        sub.subscribe("t/#", qos=1)
        assert forebay("uplink", "resume", "far", *data) == (0, "far: resumed\n", "")
        assert [sub.recv_packet(30)["payload"] for _ in range(3)] == [b"0", b"1", b"2"]
    code, out, _ = forebay("uplink", "drain", "far", "--timeout", "30", *data)
    assert (code, out) == (0, "far: empty\n")


def test_a_name_that_is_none(forebay: Forebay, pair: Pair) -> None:
    data = ("--data-dir", str(pair[0].data_dir))
    for command in ("pause", "resume", "drain"):
        code, out, err = forebay("uplink", command, "other", *data)
        assert (code, out) == (1, "")
        assert err == "forebay: no uplink other: expected one of far\n"


def test_without_uplinks(forebay: Forebay, tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as near:
        data = ("--data-dir", str(near.data_dir))
        assert rows(forebay, near) == []
        assert forebay("uplink", "pause", "far", *data).err == "forebay: no uplink is configured\n"
        assert forebay("uplink", "drain", "far", *data).err == "forebay: no uplink far: expected one of none\n"
    assert forebay("uplink", "list", "--data-dir", str(tmp_path)).code == 3

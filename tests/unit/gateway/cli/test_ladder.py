"""``forebay sparkplug ladder`` and ``upgrade``, and ``profile match`` of a live node, against a running broker."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.profiles import as_toml
from sparkplug.payload import decode
from tests.command import Forebay
from tests.harness import Broker
from tests.plant import TOPIC
from tests.spb_bytes import data, metric, nbirth, ndeath
from tests.wire import Wire
from tests.wire_format import PUBLISH, Will

PROFILE: dict[str, Any] = {
    "name": "acme-press",
    "title": "Acme press",
    "identity": {"vendor": "Acme", "model": "Press", "firmware": "any"},
    "match": {"topic": ["g/*"]},
    "evidence": {
        "date": "2026-11-30", "method": "documentation", "verdict": "unknown", "confidence": "high", "source": ["docs"],
        "expires_on_firmware_change": True, "fallback": "ingest",
    },
    "upgrade": {"possible": True, "text": "Set QoS to 1.", "ncmd": {"metric": "QoS", "datatype": "Int64", "value": 1}},
}  # fmt: skip


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "profiles"
    folder.mkdir(parents=True)
    (folder / "acme-press.toml").write_text(as_toml(PROFILE))
    return tmp_path / "data"


@pytest.fixture
def edge(data_dir: Path) -> Iterator[Wire]:
    """A node that has published its birth and one message at QoS 0."""
    with Broker(data_dir) as broker:
        will = Will(TOPIC.format("NDEATH"), ndeath(0), 1, False)
        with Wire.connect(broker.port, "edge", 4, will=will) as wire:
            wire.subscribe(TOPIC.format("NCMD"))
            wire.publish(TOPIC.format("NBIRTH"), nbirth(0, 0, 5, metric("QoS", 0)), qos=0)
            wire.publish(TOPIC.format("NDATA"), data(1), qos=0)
            wire.ping()
            yield wire


def test_a_node_stands_where_the_wire_shows_it(forebay: Forebay, edge: Wire, data_dir: Path) -> None:
    folder = ("--data-dir", str(data_dir))
    (row,) = json.loads(forebay("sparkplug", "ladder", *folder, "--json").out)
    assert (row["node"], row["step"], row["profile"]) == ("g/e", "ingest", "acme-press")
    assert row["why"][0] == "data comes at QoS 0, so the device has nothing to send again"
    assert (row["advice"][0]["to"], row["advice"][0]["text"]) == ("device", "Set QoS to 1.")
    assert forebay("sparkplug", "ladder", *folder).out.splitlines()[1].split()[:2] == ["g/e", "ingest"]
    shown = forebay("sparkplug", "ladder", "g/e", *folder).out
    assert "may still be lost" in shown
    assert "Set QoS to 1." in shown
    assert "forebay sparkplug probe g/e" in shown
    assert forebay("sparkplug", "ladder", "g/none", *folder).code == 1


def test_a_live_node_is_matched(forebay: Forebay, edge: Wire, data_dir: Path) -> None:
    folder = ("--data-dir", str(data_dir))
    found = forebay("profile", "match", "g/e", *folder)
    assert found == (0, "acme-press: unknown, confidence high, fits by topic\n", "")
    code, _, err = forebay("profile", "match", "g/none", *folder)
    assert (code, err) == (1, "forebay: g/none was never heard of\n")


class Obedient(threading.Thread):
    """Publishes at the QoS that is written to it, or goes on as before."""

    def __init__(self, edge: Wire, obeys: bool) -> None:
        super().__init__(daemon=True)
        self.edge, self.obeys = edge, obeys
        self.written: object = None
        self.start()

    def run(self) -> None:
        packet = self.edge.wait_for(PUBLISH, 60)
        self.written = decode(packet["payload"]).metrics[0].value
        for seq in range(2, 6):
            self.edge.publish(TOPIC.format("NDATA"), data(seq, seq), qos=int(self.obeys))


def test_an_upgrade_is_written_and_seen_on_the_wire(forebay: Forebay, edge: Wire, data_dir: Path) -> None:
    device = Obedient(edge, True)
    code, out, err = forebay(
        "sparkplug", "upgrade", "g/e", "--yes", "--messages", "4", "--wait", "30", "--data-dir", str(data_dir)
    )
    device.join(30)
    assert (code, err, device.written) == (0, "", 1)
    assert out.splitlines() == [
        "g/e: write 1 to its metric QoS",
        "g/e: all 4 messages came at QoS 1 or 2",
        "g/e: whether it sends again, only a probe tells: forebay sparkplug probe g/e",
    ]
    (row,) = json.loads(forebay("sparkplug", "ladder", "--data-dir", str(data_dir), "--json").out)
    assert row["why"][0] == "data comes at QoS 1, but no message was seen to come again"
    assert [advice["to"] for advice in row["advice"]].count("device") == 1, "only the probe is left to do"


def test_a_device_that_does_not_obey_stays_where_it_is(forebay: Forebay, edge: Wire, data_dir: Path) -> None:
    device = Obedient(edge, False)
    code, out, _ = forebay(
        "sparkplug", "upgrade", "g/e", "--yes", "--messages", "4", "--wait", "30", "--data-dir", str(data_dir)
    )
    device.join(30)
    assert code == 1
    assert out.splitlines()[1] == "g/e: 4 of 4 messages still came at QoS 0"
    assert out.splitlines()[2].startswith("g/e: stays at ingest: data comes at QoS 0")


def test_without_leave_nothing_is_written(forebay: Forebay, edge: Wire, data_dir: Path) -> None:
    assert forebay("sparkplug", "upgrade", "g/e", "--data-dir", str(data_dir), stdin=b"n\n").code == 1
    edge.expect_nothing()


def test_what_can_only_be_set_by_hand_is_told(forebay: Forebay, edge: Wire, data_dir: Path) -> None:
    upgrade = {"possible": True, "text": "Set QoS to 1."}
    (data_dir / "profiles" / "acme-press.toml").write_text(as_toml({**PROFILE, "upgrade": upgrade}))
    told = forebay("sparkplug", "upgrade", "g/e", "--data-dir", str(data_dir))
    assert told == (1, "g/e: set it by hand: Set QoS to 1.\n", "")
    (data_dir / "profiles" / "acme-press.toml").unlink()
    told = forebay("sparkplug", "upgrade", "g/e", "--data-dir", str(data_dir))
    assert told == (1, "g/e: nothing to set is known\n", "")


def test_a_metric_that_is_not_there_is_refused(forebay: Forebay, edge: Wire, data_dir: Path) -> None:
    upgrade = {**PROFILE["upgrade"], "ncmd": {"metric": "None", "datatype": "Int64", "value": 1}}
    (data_dir / "profiles" / "acme-press.toml").write_text(as_toml({**PROFILE, "upgrade": upgrade}))
    code, _, err = forebay("sparkplug", "upgrade", "g/e", "--yes", "--data-dir", str(data_dir))
    assert (code, err) == (1, "forebay: g/e has no metric None in its birth\n")

"""Power cuts and failing disks: what was acknowledged outlives them, and no acknowledgement comes before its fsync.

FOREBAY_CUTS (8; a full run takes 50), FOREBAY_FAILS (calls that fail, one run each, spread over the first 200; 6; a
full run takes 200), FOREBAY_SEED.
"""

import os
import random
import shutil
import time
from pathlib import Path

import pytest

from tests import wire_format as mqtt
from tests.crash.powercut import MODES, rebuild
from tests.crash.shimlog import Record, build_shim, early_acknowledgements, read_log, shim_env
from tests.crash.traffic import Traffic, deliveries, join, payload, verify
from tests.harness import Broker
from tests.wire import Wire
from tests.wire_format import WireError

CUTS = int(os.environ.get("FOREBAY_CUTS", "8"))
FAILS = int(os.environ.get("FOREBAY_FAILS", "6"))
SEED = int(os.environ.get("FOREBAY_SEED", str(time.time_ns() % 100_000)))
MUTANTS = Path(__file__).parent

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="the shim needs a C compiler")


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_shim(tmp_path_factory.mktemp("shim"))


def record(shim: Path, directory: Path, batches: int, entry: tuple[str, ...]) -> tuple[Traffic, list[Record]]:
    """Traffic on a broker under the shim, killed at its end."""
    log = directory / "shim.log"
    env = shim_env(directory / "data", log=log, sync_delay_ms=3)
    with Broker(directory / "data", env=env, preload=[shim], entry=entry) as broker:
        traffic = Traffic(broker)
        traffic.run(batches)
        broker.kill9()
        traffic.close()
    return traffic, read_log(log)


@pytest.mark.timeout(120 + 15 * CUTS)
def test_power_cuts(shim: Path, tmp_path: Path) -> None:
    traffic, records = record(shim, tmp_path, 5, ("-m", "gateway"))
    early = early_acknowledgements(records, traffic.marker, set(traffic.ports.values()))
    assert not early, "\n".join(early[:20])
    ready = next(index for index, one in enumerate(records) if one.kind == "I" and one.port in traffic.ports.values())
    chance = random.Random(SEED)
    for turn in range(CUTS):
        upto, mode = chance.randint(ready, len(records)), MODES[turn % len(MODES)]
        rebuild(records, upto, tmp_path / f"cut{turn}", mode, chance)
        try:
            verify(traffic, records[:upto], tmp_path / f"cut{turn}")
        except (AssertionError, RuntimeError) as error:
            pytest.fail(f"seed {SEED}, cut {turn} ({mode}) behind record {upto} of {len(records)}: {error}")


@pytest.mark.parametrize("mutant", ["mutant_no_sync.py", "mutant_early_ack.py"])
def test_a_broker_that_acknowledges_too_early_is_caught(shim: Path, tmp_path: Path, mutant: str) -> None:
    traffic, records = record(shim, tmp_path, 2, (str(MUTANTS / mutant),))
    early = early_acknowledgements(records, traffic.marker, set(traffic.ports.values()))
    assert len(early) > 10
    first = int(early[0].split()[1].rstrip(":"))
    rebuild(records, first + 1, tmp_path / "cut", "drop", random.Random(1))
    with pytest.raises((AssertionError, RuntimeError)):
        verify(traffic, records[: first + 1], tmp_path / "cut")


def publish_all(broker: Broker, count: int) -> None:
    """A publisher that goes on until everything is acknowledged, whatever happens to the broker."""
    acknowledged: set[int] = set()
    for _ in range(20):
        if not broker.running():
            broker.env = {}
            broker.preload = []
            broker.start()
        try:
            with join(broker.port, "p") as wire:
                for pid in range(1, count + 1):
                    if pid not in acknowledged:
                        wire.publish("t/p", payload("p", pid), 1, dup=True, pid=pid)
                while len(acknowledged) < count:
                    packet = wire.recv_packet()
                    assert packet.type == mqtt.PUBACK and packet["code"] < 0x80, packet
                    acknowledged.add(packet["pid"])
                return
        except (WireError, OSError):
            time.sleep(0.1)
    raise AssertionError(f"only {sorted(acknowledged)} of {count} acknowledged")


@pytest.mark.timeout(120 + 30 * FAILS)
def test_any_call_may_fail(shim: Path, tmp_path: Path) -> None:
    """Call N on the disk fails, from the very first one: a start that refuses, or nothing lost."""
    chance = random.Random(SEED)
    numbers = range(1, 201) if FAILS >= 200 else sorted(chance.sample(range(1, 201), FAILS))
    for number in numbers:
        data = tmp_path / f"fail{number}"
        errno = "EIO" if number % 2 else "ENOSPC"
        log = tmp_path / f"fail{number}.shim"
        broker = Broker(data, env=shim_env(data, fail_at=number, errno=errno, log=log), preload=[shim])
        try:
            broker.start()
        except RuntimeError:
            assert len([line for line in broker.log().splitlines() if "Traceback" in line]) == 0, broker.log()
            broker.env, broker.preload = {}, []
            broker.start()
        with broker:
            with join(broker.port, "away") as wire:
                wire.subscribe("t/#", qos=1)
            for part in range(1, 6):
                publish_all(broker, 8 * part)
            broker.kill9()
            broker.env, broker.preload = {}, []
            broker.start()
            seen = deliveries(broker, "away")
            lost = [pid for pid in range(1, 41) if payload("p", pid) not in seen]
            assert not lost, f"call {number} ({errno}): {lost} lost\n{broker.log()[-2000:]}"


def test_a_full_disk_holds_acknowledgements_and_recovers(shim: Path, tmp_path: Path) -> None:
    data, full = tmp_path / "data", tmp_path / "full"
    env = shim_env(data, fail_while=full, errno="ENOSPC", fail_op="write")
    with Broker(data, env=env, preload=[shim]) as broker, join(broker.port, "away") as away:
        away.subscribe("t/#", qos=1)
        with Wire.connect(broker.port, "live") as live, join(broker.port, "p") as publisher:
            live.subscribe("live")
            away.close()
            publisher.publish_done("t/p", b"before")
            full.touch()
            pid = publisher.publish("t/p", b"during", 1)
            publisher.expect_nothing(1)
            with Wire.connect(broker.port, "other") as other:
                other.publish("live", b"QoS 0 goes on")
                live.expect(mqtt.PUBLISH, payload=b"QoS 0 goes on")
            full.unlink()
            publisher.expect(mqtt.PUBACK, pid=pid)
            publisher.publish_done("t/p", b"after")
        broker.kill9()
        broker.env, broker.preload = {}, []
        broker.start()
        assert deliveries(broker, "away") == [b"before", b"during", b"after"]

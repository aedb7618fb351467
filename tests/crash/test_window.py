"""Crashes inside the commit window: what was acknowledged without the disk is with every collector.

FOREBAY_WINDOWS (3; a full run takes 100): so many kills, and so many power cuts; FOREBAY_SEED.
"""

import os
import random
import shutil
import time
from pathlib import Path

import pytest

from tests import wire_format as mqtt
from tests.crash.powercut import MODES, rebuild
from tests.crash.shimlog import Record, build_shim, read_log, shim_env
from tests.crash.window import Window, kill_after
from tests.harness import Broker

ROUNDS = int(os.environ.get("FOREBAY_WINDOWS", "3"))
SEED = int(os.environ.get("FOREBAY_SEED", str(time.time_ns() % 100_000)))
HASTY = (str(Path(__file__).with_name("mutant_held_early.py")),)
SANE = ("-m", "gateway")
AT_LEAST = 15  # acknowledged before a kill


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("the shim needs a C compiler")
    return build_shim(tmp_path_factory.mktemp("shim"))


def killed(broker: Broker, chance: random.Random, first: int) -> Window:
    """Traffic until a kill at a random moment."""
    window = Window(broker, chance, first)
    window.run(AT_LEAST)
    timer = kill_after(broker, chance.uniform(0.05, 1.0))
    window.run(10_000)
    timer.join()
    window.close()
    broker.kill9()
    return window


@pytest.mark.timeout(120 + 30 * ROUNDS)
def test_kill_9_in_the_window(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    acknowledged, first = 0, 1
    with Broker(tmp_path / "data") as broker:
        for turn in range(ROUNDS):
            window = killed(broker, chance, first)
            first = window.next
            acknowledged += len(window.acknowledged)
            broker.start()
            try:
                window.verify_kill(broker)
            except AssertionError as error:
                pytest.fail(f"seed {SEED}, kill {turn}: {error}")
    assert acknowledged >= AT_LEAST * ROUNDS


def record(shim: Path, directory: Path, count: int, entry: tuple[str, ...]) -> tuple[Window, list[Record]]:
    """Traffic on a broker under the shim, killed at its end."""
    log = directory / "shim.log"
    env = shim_env(directory / "data", log=log, sync_delay_ms=3)
    with Broker(directory / "data", env=env, preload=[shim], entry=entry) as broker:
        window = Window(broker, random.Random(SEED))
        window.run(count)
        broker.kill9()
        window.close()
    return window, read_log(log)


def answers(records: list[Record], window: Window) -> list[int]:
    """Where the publisher was told that a message is kept."""
    port = window.port
    return [at for at, one in enumerate(records) if one.kind == "A" and one.number == mqtt.PUBACK and one.port == port]


@pytest.mark.timeout(120 + 30 * ROUNDS)
def test_power_cuts_in_the_window(shim: Path, tmp_path: Path) -> None:
    """Cut right behind an acknowledgement, or anywhere between the first and the last."""
    window, records = record(shim, tmp_path, 300, SANE)
    told = answers(records, window)
    chance = random.Random(SEED)
    for turn in range(ROUNDS):
        upto = chance.choice(told) + 1 if chance.random() < 0.5 else chance.randint(told[0], len(records))
        mode = MODES[turn % len(MODES)]
        data = tmp_path / f"cut{turn}"
        rebuild(records, upto, data, mode, chance)
        try:
            with Broker(data) as broker:
                window.verify_cut(broker, records[:upto])
        except (AssertionError, RuntimeError) as error:
            pytest.fail(f"seed {SEED}, cut {turn} ({mode}) behind record {upto} of {len(records)}: {error}")
        shutil.rmtree(data)


def test_a_broker_that_answers_for_held_messages_too_early_is_caught(shim: Path, tmp_path: Path) -> None:
    """Behind every acknowledgement of it the power may go: one of a few such cuts must show a loss."""
    window, records = record(shim, tmp_path, 100, HASTY)
    told = answers(records, window)
    losses = 0
    for turn, at in enumerate(told[:3]):
        data = tmp_path / f"cut{turn}"
        rebuild(records, at + 1, data, "keep", random.Random(SEED))
        with Broker(data) as broker:
            try:
                window.verify_cut(broker, records[: at + 1])
            except AssertionError:
                losses += 1
    assert losses

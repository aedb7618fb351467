"""Sessions, queues, the log and its store on a random walk; FOREBAY_WALKS=N walks N times as often."""

import gc
import os

import pytest

from gateway.core.message import Message, PendingAck
from gateway.core.model import Delivery
from gateway.mqtt.packets import Ack, Publish
from tests.property.walk import Walk

WALKS = int(os.environ.get("FOREBAY_WALKS", "1"))
SEEDS = 40
STEPS = 150
KINDS: dict[str, set[str]] = {
    "plain": set(),
    "crashes": {"crashes"},
    "failures": {"failures"},
    "full": {"full"},
    "expiry": {"expiry"},
    "groups": {"groups"},
    "groups and crashes": {"groups", "crashes"},
    "gathering": {"gathers"},
    "gathering, groups and crashes": {"gathers", "groups", "crashes"},
    "priorities": {"ranks"},
    "priorities, groups and crashes": {"ranks", "groups", "crashes"},
    "priorities and all": {"ranks", "groups", "crashes", "failures", "full", "expiry", "gathers"},
    "uplinks": {"uplinks"},
    "uplinks and crashes": {"uplinks", "crashes"},
    "uplinks and all": {"uplinks", "ranks", "groups", "crashes", "failures", "full", "expiry", "gathers"},
    "all": {"groups", "crashes", "failures", "full", "expiry"},
}


def run(seed: int, kind: str) -> Walk:
    on = KINDS[kind]
    walk = Walk(
        seed,
        crashes="crashes" in on,
        failures="failures" in on,
        full="full" in on,
        expiry="expiry" in on,
        groups="groups" in on,
        gathers="gathers" in on,
        ranks="ranks" in on,
        uplinks="uplinks" in on,
    )
    try:
        for _ in range(STEPS):
            walk.step()
            walk.audit()
        walk.finish()
    except Exception as error:
        error.add_note(f"walk {kind!r} seed {seed}, step {len(walk.steps)}: {' '.join(walk.steps[-12:])}")
        raise
    return walk


@pytest.mark.timeout(60 + 30 * WALKS)
@pytest.mark.parametrize("kind", list(KINDS))
def test_nothing_acknowledged_is_lost(kind: str) -> None:
    for seed in range(SEEDS * WALKS):
        run(seed, kind)


@pytest.mark.parametrize("kind", ["plain", "failures", "expiry", "groups", "gathering"])
def test_messages_need_no_collector_to_die(kind: str) -> None:
    """Compiled, the collector does not know them: whatever holds them must let go (seen only interpreted)."""
    gc.disable()
    try:
        for seed in range(5 * WALKS):
            gc.collect()
            gc.set_debug(gc.DEBUG_SAVEALL)
            walk = run(seed, kind)
            gc.collect()
            gc.set_debug(0)
            assert [one for one in gc.garbage if isinstance(one, Message | Delivery | PendingAck | Publish | Ack)] == []
            gc.garbage.clear()
            del walk  # a cycle as a whole
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()

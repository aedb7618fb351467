"""The settings of the bridge reach the core."""

from gateway.settings.table import Sources, load


def test_the_bridge_is_on_unless_it_is_switched_off() -> None:
    assert load(Sources(), {}).limits().bridge
    assert not load(Sources(sets=("bridge.enabled=false",)), {}).limits().bridge


def test_each_setting_is_a_limit_of_the_core() -> None:
    sets = ("bridge.elide=true", "bridge.death_timestamp=true", "bridge.command_expiry=5s")
    limits = load(Sources(sets=sets), {}).limits()
    assert (limits.bridge_elide, limits.bridge_death_time, limits.command_expiry_ms) == (True, True, 5000)

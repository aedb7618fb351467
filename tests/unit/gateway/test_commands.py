"""What the control socket does to a running broker, and what it refuses."""

from collections.abc import Iterator
from typing import Any

import pytest

from gateway.cli.control import RefusedError, ask
from tests.harness import Broker
from tests.wire import Wire


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("commands") / "data", {"bridge.enabled": False}) as broker:
        yield broker


def asked(broker: Broker, cmd: str, **more: object) -> Any:
    return ask(broker.data_dir / "control.sock", {"cmd": cmd, **more})


@pytest.mark.parametrize("cmd", ["", "nothing", "_on_session", 5, None, []])
def test_what_is_no_command_is_named(broker: Broker, cmd: Any) -> None:
    with pytest.raises(RefusedError, match="no such command"):
        asked(broker, cmd)


@pytest.mark.parametrize("cmd", ["session", "remove", "discard"])
def test_a_session_is_named_by_its_client_id(broker: Broker, cmd: str) -> None:
    for wrong in (5, None, ["a"]):
        with pytest.raises(RefusedError, match=f"{cmd} needs a client_id"):
            asked(broker, cmd, client_id=wrong)
    with pytest.raises(RefusedError, match="no session of nobody"):
        asked(broker, cmd, client_id="nobody")


def test_a_session_is_shown_emptied_and_removed(broker: Broker) -> None:
    with Wire.connect(broker.port, "one", clean=False) as wire, Wire.connect(broker.port, "other") as other:
        wire.subscribe("t", qos=1)
        with pytest.raises(RefusedError, match="one is connected"):
            asked(broker, "discard", client_id="one")
        wire.disconnect()
        for _ in range(3):
            other.publish_done("t", b"x", qos=1)
    assert asked(broker, "session", client_id="one")["queue_messages"] == 3
    assert asked(broker, "discard", client_id="one") == 3
    assert asked(broker, "session", client_id="one")["queue_messages"] == 0
    assert asked(broker, "remove", client_id="one") is True
    assert [row["client_id"] for row in asked(broker, "sessions")] == []


def test_settings_are_those_in_force(broker: Broker) -> None:
    assert asked(broker, "settings")["bridge.enabled"] == "false"


def test_who_is_not_kept_out_cannot_be_let_in(broker: Broker) -> None:
    assert asked(broker, "bans") == {"bans": [], "flapping": []}
    assert asked(broker, "unban", client_id="nobody") is False


def test_users_are_read_anew(broker: Broker) -> None:
    assert asked(broker, "reload_users") is True


def test_a_bridge_that_is_switched_off_is_not_asked(broker: Broker) -> None:
    for cmd in ("sparkplug_nodes", "sparkplug_values", "sparkplug_rebirth", "sparkplug_write"):
        with pytest.raises(RefusedError, match="switched off"):
            asked(broker, cmd, node="g/n")


def test_the_doctor_is_told_what_is_known(broker: Broker) -> None:
    with Wire.connect(broker.port, "plc") as plc:
        plc.publish_done("t/1", b"x", qos=1)
        told = asked(broker, "doctor")
    assert [row["client_id"] for row in told["clients"]][-1] == "plc"
    assert {"publisher": "plc", "topic": "t/1"}.items() <= told["flows"][-1].items()
    assert (told["nodes"], told["gateway"]["bridge"]) == ([], False)


def test_no_uplink_is_paused_where_there_is_none(broker: Broker) -> None:
    with pytest.raises(RefusedError, match="no uplink is configured"):
        asked(broker, "uplink_pause", name="a")

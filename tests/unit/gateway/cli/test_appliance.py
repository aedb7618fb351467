from pathlib import Path

import pytest

from gateway.appliance.facts import PATH
from tests.command import Forebay

pytestmark = pytest.mark.skipif(PATH.exists(), reason="this machine is an appliance, and would be provisioned")


@pytest.mark.parametrize("command", [("provision",), ("console",), ("reset", "--yes"), ("emergency",)])
def test_a_machine_without_an_image_is_left_alone(forebay: Forebay, command: tuple[str, ...]) -> None:
    result = forebay("appliance", *command)
    assert result.code == 1
    assert result.err == "forebay: this machine was not started from an image\n"


def test_the_units_call_what_is_there(forebay: Forebay) -> None:
    shown = forebay("appliance", "--help").out
    top = Path(__file__).parents[4]
    own = [top / "systemd" / name for name in ("forebay-provision.service", "forebay-console@.service")]
    for unit in (*own, top / "images/overlay/etc/systemd/system/emergency.service.d/forebay.conf"):
        line = [line for line in unit.read_text().splitlines() if line.startswith("ExecStart=")][-1]
        assert line.split()[-2] == "gateway.cli.appliance"
        assert line.split()[-1] in shown

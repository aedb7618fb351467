"""``forebay uplink test``: each step that works is told, and the one that does not."""

import json
from pathlib import Path

from tests.command import Forebay
from tests.harness import Broker, free_port


def settings(tmp_path: Path, *addresses: str, **keys: object) -> tuple[str, str]:
    """Options with an uplink "far" to these addresses."""
    rules = [{"direction": "out", "filter": "#"}]
    row = {"name": "far", "addresses": list(addresses), "rules": rules, **keys}
    return "--set", f"uplink={json.dumps([row])}"


def test_all_of_it_works(forebay: Forebay, tmp_path: Path) -> None:
    with Broker(tmp_path / "far") as far:
        for version in ("5", "3.1.1"):
            options = settings(tmp_path, f"mqtt://127.0.0.1:{far.port}", version=version)
            code, out, err = forebay("uplink", "test", "far", *options)
            assert (code, err) == (0, "")
            first, *lines = out.splitlines()
            assert first == f"mqtt://127.0.0.1:{far.port}"
            assert [line.split()[:2] for line in lines] == [
                [step, "ok"] for step in ("DNS", "TCP", "CONNECT", "SUBSCRIBE", "PUBLISH", "heartbeat")
            ]


def test_every_address_is_tried_and_the_step_that_fails_is_named(forebay: Forebay, tmp_path: Path) -> None:
    with Broker(tmp_path / "far", {"allow_anonymous": "false"}) as far:
        nobody = free_port()
        options = settings(tmp_path, f"mqtt://127.0.0.1:{nobody}", f"mqtt://127.0.0.1:{far.port}")
        code, out, _ = forebay("uplink", "test", "far", *options)
        assert code == 1
        assert f"  TCP        FAILED  127.0.0.1 port {nobody}: Connection refused" in out
        assert "  CONNECT    FAILED  not authorized (0x87)" in out
        code, out, _ = forebay("uplink", "test", "far", "--json", *options)
        found = json.loads(out)
        assert code == 1
        assert [(one["works"], one["failed"]) for one in found] == [(False, "TCP"), (False, "CONNECT")]
        assert [step["step"] for step in found[1]["steps"]] == ["DNS", "TCP"]


def test_a_name_that_is_none(forebay: Forebay, tmp_path: Path) -> None:
    code, out, err = forebay("uplink", "test", "other", *settings(tmp_path, "mqtt://h"))
    assert (code, out, err) == (2, "", "forebay: no uplink other: expected one of far\n")

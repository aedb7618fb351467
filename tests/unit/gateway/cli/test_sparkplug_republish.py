import json
from pathlib import Path

import pytest

from tests.command import Forebay
from tests.harness import Broker, free_port


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["Out"], 'GROUP/NODE "Out": expected two ids with a / between them'),
        (["Out/a/b"], "GROUP/NODE 'a/b' holds '/': expected text without + / #"),
        (["Out/a", "--source", "p/+"], "--source '+' holds '+': expected text without + / #"),
        (["Out/a", "--primary-host", ""], "--primary-host is empty: expected text without + / #"),
        (["Out/a", "--expiry", "soon"], '--expiry "soon": expected'),
        (["Out/a", "--to-password-file", "x"], "--to-password-file: expected --to-user too"),
    ],
)
def test_bad_arguments_are_named_in_one_line(forebay: Forebay, tmp_path: Path, arguments: list[str], said: str) -> None:
    result = forebay("sparkplug", "republish", *arguments, "--to", "localhost", "--state", str(tmp_path / "s"))
    assert result.code == 2
    assert said in result.err
    assert result.err.count("\n") == 1


def test_a_state_file_that_is_none_is_named(forebay: Forebay, tmp_path: Path) -> None:
    path = tmp_path / "s"
    for text in ("{", '{"version": 1, "bd_seq": 1, "births": [{"topic": "x", "birth": "", "current": 1, "alive": 1}]}'):
        path.write_text(text)
        result = forebay("sparkplug", "republish", "Out/a", "--to", "localhost", "--state", str(path))
        assert result.code == 2
        assert str(path) in result.err
        assert result.err.count("\n") == 1


def test_a_destination_that_is_not_there_ends_it_with_3_and_a_summary(forebay: Forebay, tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as here:
        result = forebay(
            "sparkplug", "republish", "Out/a", "--to", "127.0.0.1", "--to-port", str(free_port()), "--port",
            str(here.port), "--state", str(tmp_path / "s"), "--retry", "0", "--json",
        )  # fmt: skip
    assert result.code == 3
    assert "cannot connect" in result.err
    assert (json.loads(result.out)["taken"], json.loads(result.out)["sessions"]) == (0, 0)
    assert json.loads((tmp_path / "s").read_text())["bd_seq"] == 0


def test_it_leaves_after_its_time(forebay: Forebay, tmp_path: Path) -> None:
    with Broker(tmp_path / "here") as here, Broker(tmp_path / "there") as there:
        result = forebay(
            "sparkplug", "republish", "Out/a", "--to", "127.0.0.1", "--to-port", str(there.port), "--port",
            str(here.port), "--state", str(tmp_path / "s"), "--duration", "1", "--source", "Plant", "--json",
        )  # fmt: skip
    said = json.loads(result.out)
    assert (result.code, said["sessions"], said["NBIRTH"], said["NDEATH"]) == (0, 1, 1, 1)


def uplink(tmp_path: Path, address: str, extra: str = "") -> list[str]:
    """Options that lead to an uplink with this address."""
    (tmp_path / "f.toml").write_text(
        f"""
        [[uplink]]
        name = "far"
        addresses = ["{address}"]
        rules = [{{ direction = "out", filter = "x" }}]
        {extra}
        """
    )
    return ["--config", str(tmp_path / "f.toml"), "--state", str(tmp_path / "s")]


def test_the_next_address_of_an_uplink_is_tried(forebay: Forebay, tmp_path: Path) -> None:
    with Broker(tmp_path / "here") as here, Broker(tmp_path / "there") as there:
        options = uplink(tmp_path, f'mqtt://127.0.0.1:{free_port()}", "mqtt://127.0.0.1:{there.port}')
        result = forebay(
            "sparkplug", "republish", "Out/a", "--uplink", "far", "--port", str(here.port), "--duration", "2", "--json",
            "--state", str(tmp_path / "state"), *options,
        )  # fmt: skip
        assert json.loads(result.out)["sessions"] == 1, result.err


def test_the_broker_of_an_uplink_is_the_destination(forebay: Forebay, tmp_path: Path) -> None:
    with Broker(tmp_path / "here") as here, Broker(tmp_path / "there") as there:
        options = uplink(tmp_path, f"mqtt://127.0.0.1:{there.port}")
        result = forebay(
            "sparkplug", "republish", "Out/a", "--uplink", "far", "--port", str(here.port), "--duration", "1", "--json",
            *options,
        )  # fmt: skip
    said = json.loads(result.out)
    assert (result.code, said["sessions"], said["NBIRTH"], said["NDEATH"]) == (0, 1, 1, 1)


@pytest.mark.parametrize(
    ("arguments", "address", "extra", "said"),
    [
        (["--uplink", "other"], "mqtt://h", "", "no uplink other: expected one of far"),
        (["--uplink", "far"], "ws://h", "", "uplink far: ws://h:80/mqtt: expected mqtt:// or mqtts://"),
        (["--uplink", "far"], "mqtts://h", 'ca = "none.pem"', "uplink far: TLS: TLS CA none.pem: no such file"),
        (["--uplink", "far", "--to", "h"], "mqtt://h", "", "expected either --to HOST or --uplink NAME"),
        ([], "mqtt://h", "", "expected either --to HOST or --uplink NAME"),
    ],
)
def test_an_uplink_that_cannot_be_the_destination(
    forebay: Forebay, tmp_path: Path, arguments: list[str], address: str, extra: str, said: str
) -> None:
    result = forebay("sparkplug", "republish", "Out/a", *arguments, *uplink(tmp_path, address, extra))
    assert (result.code, result.out) == (2, "")
    assert said.lower() in result.err.lower()
    assert result.err.count("\n") == 1

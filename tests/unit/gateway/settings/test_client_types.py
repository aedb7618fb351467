"""The rows of ``client_type``: what is taken, what is refused by row and key, and that what is shown reads back."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.limits import NEVER, UNSET, ClientRule
from gateway.settings.client_types import ClientTypes
from gateway.settings.entry import RowError
from gateway.settings.table import SettingsError, Sources, load


def test_takes() -> None:
    assert ClientTypes().parse([{"client_id": "c", "username": "u", "type": "Application"}]) == [
        ClientRule("c", "u", True)
    ]


@pytest.mark.parametrize("value", [{"client_id": "a", "type": "device"}, "a"])
def test_it_is_a_list(value: object) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        ClientTypes().parse(value)


@pytest.mark.parametrize(
    ("row", "key"),
    [
        ({"type": "device"}, "client_id"),
        ({"client_id": "a"}, "type"),
        ({"client_id": "a", "type": "gateway"}, "type"),
        ({"client_id": "a", "type": True}, "type"),
        ({"client_id": 1, "type": "device"}, "client_id"),
        ({"client_id": "a", "type": "device", "x": 1}, "x"),
        ({"client_id": "a", "type": "device", "drain_rate": 1}, "drain_rate"),
        ({"client_id": "a", "type": "application", "drain_rate": -1}, "drain_rate"),
        ({"client_id": "a", "type": "application", "start": "middle"}, "start"),
        ({"client_id": "a", "type": "application", "start": []}, "start"),
        ({"client_id": "a", "type": "application", "max_bytes": "x"}, "max_bytes"),
    ],
)
def test_refuses(row: dict[str, object], key: str) -> None:
    with pytest.raises(RowError) as error:
        ClientTypes().parse([{"client_id": "fine", "type": "device"}, row])
    assert str(error.value).startswith(f"[2].{key} = ")


def test_a_row_is_a_table() -> None:
    with pytest.raises(ValueError, match=r"^$"):
        ClientTypes().parse(["a"])


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('client_id = "a"\ntype = "machine"', '.type = "machine": expected one of "application", "device"'),
        ('client_id = "a"', '.type = null: expected one of "application", "device"'),
        ('type = "device"', '.client_id = "": expected a pattern with * and ?, here or as username'),
        ('username = 5\ntype = "device"', ".username = 5: expected a pattern with * and ?"),
        (
            'client_id = "a"\ntype = "application"\ndrain_rate = "fast"',
            '.drain_rate = "fast": expected an integer from 0 to 1000000 or "unlimited"',
        ),
        (
            'client_id = "a"\ntype = "application"\nstart = "now"',
            '.start = "now": expected one of "earliest", "end"',
        ),
        (
            'client_id = "a"\ntype = "device"\nmax_age = "1d"',
            '.max_age = "1d": expected a device to have only client_id, username, type',
        ),
    ],
)
def test_a_wrong_client_type_is_named_by_its_row_and_key(tmp_path: Path, row: str, said: str) -> None:
    path = tmp_path / "forebay.toml"
    path.write_text(f'[[client_type]]\nclient_id = "fine"\ntype = "device"\n[[client_type]]\n{row}\n')
    with pytest.raises(SettingsError) as error:
        load(Sources(path), {})
    assert str(error.value) == f"{path}: client_type[2]{said}"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (
            "c-*=application, username:u=device",
            [{"client_id": "c-*", "type": "application"}, {"username": "u", "type": "device"}],
        ),
        (
            "c=application;start=earliest;drain_rate=9;max_age=7d",
            [{"client_id": "c", "type": "application", "start": "earliest", "drain_rate": 9, "max_age": "7d"}],
        ),
        ("", []),
    ],
)
def test_text_means_what_toml_would(text: str, value: object) -> None:
    assert ClientTypes().from_text(text) == value


_RULES = st.builds(
    ClientRule,
    st.text(),
    st.text(),
    st.just(True),
    st.integers(UNSET, 1),
    st.integers(UNSET, 2**40),
    st.integers(UNSET, NEVER),
    st.integers(UNSET, 1_000_000),
) | st.tuples(st.text(), st.text()).map(lambda names: ClientRule(*names, False))


@given(st.lists(_RULES.filter(lambda rule: bool(rule.client_id or rule.username))))
def test_shown_client_types_read_back(rows: list[ClientRule]) -> None:
    shown = ClientTypes().show(rows)
    assert ClientTypes().parse(tomllib.loads("x = " + shown)["x"]) == rows

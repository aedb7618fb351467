import contextlib
from pathlib import Path

import pytest

from gateway.access import Access
from gateway.auth import Passwords
from gateway.provisioning.applying import ERRORS, Outcome, apply, remounted
from gateway.provisioning.effects import Places, hostname
from gateway.settings.table import Sources, load

NOW_MS = 1_796_000_000_000
STAMP = "20261130-120000"


@pytest.fixture
def places(tmp_path: Path) -> Places:
    for name in ("fat", "own", "data"):
        (tmp_path / name).mkdir()
    (tmp_path / "own/machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    return Places(tmp_path / "fat", tmp_path / "own", tmp_path / "etc/forebay.toml", tmp_path / "data")


def start(places: Places, text: str | None = None, now_ms: int = NOW_MS) -> Outcome:
    if text is not None:
        (places.fat / "forebay.toml").write_text(text)
    return apply(places, contextlib.nullcontext, now_ms, STAMP)


def card(places: Places) -> str:
    return (places.fat / "forebay.toml").read_text()


def test_a_card_is_applied_once_and_its_password_wiped(places: Places) -> None:
    found = start(places, 'hostname = "line-4"\n[user]\nname = "admin" # me\npassword = "12345678"\n')
    assert found == Outcome([], True, "")
    assert hostname(places) == "line-4"
    assert Passwords(places.users).verify("admin", b"12345678")
    assert card(places) == 'hostname = "line-4"\n[user]\nname = "admin" # me\npassword = ""\n'
    Passwords(places.users).add("admin", b"changed since")
    assert start(places) == Outcome([], False, "")
    assert Passwords(places.users).verify("admin", b"changed since")


def test_a_changed_card_is_applied_again_and_an_empty_password_changes_none(places: Places) -> None:
    start(places, 'hostname = "line-4"\n[user]\nname = "admin"\npassword = "12345678"\n')
    found = start(places, card(places).replace("line-4", "line-5"))
    assert found == Outcome([], True, "")
    assert hostname(places) == "line-5"
    assert Passwords(places.users).verify("admin", b"12345678")


def test_a_password_stays_on_the_card_when_nothing_else_lasts(places: Places) -> None:
    text = '[user]\nname = "admin"\npassword = "12345678"\n'
    (places.fat / "forebay.toml").write_text(text)
    assert apply(places, contextlib.nullcontext, NOW_MS, STAMP, lasts=False) == Outcome([], True, "")
    assert Passwords(places.users).verify("admin", b"12345678")
    assert card(places) == text


def test_without_a_card_or_a_user_there_is_a_setup_code(places: Places) -> None:
    found = start(places)
    assert found.errors == []
    assert not found.applied
    assert Passwords(places.users).verify("setup", found.code.encode())
    assert start(places).code == found.code
    assert start(places, '[user]\nname = "admin"\npassword = "12345678"\n').code == ""
    assert Passwords(places.users).names() == ["admin"]


def test_errors_stand_beside_the_card_and_the_rest_is_in_force(places: Places) -> None:
    uplink = '[[uplink]]\nname = "cloud"\naddresses = ["nonsense"]\nuser = "u"\npassword = "of-the-cloud"\n'
    text = (
        f'hostname = "line 4"\n[user]\nname = "admin"\npassword = "12345678"\n{uplink}[settings]\nlog.level = "loud"\n'
    )
    found = start(places, text)
    said = (places.fat / ERRORS).read_text()
    assert len(found.errors) == 3
    for line, word in zip(sorted(found.errors), ("hostname", "settings log.level", "uplink cloud"), strict=True):
        assert line.startswith(word)
        assert line in said
    assert "of-the-cloud" not in said
    assert "12345678" not in card(places)
    assert "of-the-cloud" in card(places)  # the uplink still needs it
    assert Passwords(places.users).verify("admin", b"12345678")
    load(Sources(places.settings), {})
    start(places, 'hostname = "line-4"\n')
    assert not (places.fat / ERRORS).exists()


def test_a_card_that_is_no_toml_is_told_and_left(places: Places) -> None:
    found = start(places, "[user\npassword = 12345678\n")
    assert len(found.errors) == 1
    assert "not valid TOML" in (places.fat / ERRORS).read_text()
    assert card(places) == "[user\npassword = 12345678\n"
    assert found.code
    assert not start(places).applied


@pytest.mark.parametrize(
    "text",
    [
        "[settings]\n" + ".".join(["a"] * 2000) + " = 1\n",
        '[[uplink]]\nname = "u\\n\\u001b[2J"\naddresses = []\n',
        '[settings]\n"a\\nb" = ' + "[" * 300 + "]" * 300 + "\n",
        '[user]\nname = "setup"\npassword = "12345678"\n',
        '[network]\naddress = "10.0.0.1/24\\nDNS=6.6.6.6"\n',
        '[settings]\napplication_log.engine = "nats"\napplication_log.nats.servers = []\n',
    ],
)
def test_whatever_is_wrong_is_one_line_and_the_rest_is_in_force(places: Places, text: str) -> None:
    rest = '[[collector]]\nname = "tele"\npassword = "12345678"\ntopics = ["a/#"]\n'
    found = start(places, text + rest)
    assert len(found.errors) == 1 and found.errors[0].isprintable()
    assert Passwords(places.users).verify("tele", b"12345678")
    load(Sources(places.settings), {})
    said = (places.fat / ERRORS).read_bytes().decode()
    assert said.endswith(f"\r\n\r\n{found.errors[0]}\r\n")


def test_a_file_too_long_or_with_another_name_is_told_once(places: Places) -> None:
    opened: list[bool] = []

    def writable() -> contextlib.AbstractContextManager[None]:
        opened.append(True)
        return contextlib.nullcontext()

    (places.fat / "forebay.toml.txt").write_text('hostname = "line-4"\n')
    for _ in range(2):
        found = apply(places, writable, NOW_MS, STAMP)
        assert found.errors == ["forebay.toml.txt: expected the name forebay.toml"]
        assert found.errors[0] in (places.fat / ERRORS).read_text()
    assert len(opened) == 1
    (places.fat / "forebay.toml.txt").rename(places.fat / "forebay.toml")
    assert start(places) == Outcome([], True, found.code)
    assert not (places.fat / ERRORS).exists()
    assert start(places, "#" * 300_000).errors == [
        "forebay.toml: nothing of it was applied: expected 262144 bytes at most"
    ]
    (places.fat / "forebay.toml").unlink()
    (places.fat / "forebay.toml").mkdir()
    assert start(places).errors == ["forebay.toml: cannot be read: Is a directory"]


def test_where_nothing_can_be_kept_all_is_told_and_nothing_raised(places: Places) -> None:
    places.own.joinpath("machine-id").unlink()
    places.own.rmdir()
    for path in (places.own, places.settings.parent):
        path.write_text("no folder")
    places.data.rmdir()
    places.data.write_text("no folder")
    found = start(places, 'hostname = "line-4"\n[user]\nname = "admin"\npassword = "12345678"\n')
    assert {line.partition(":")[0] for line in found.errors} >= {"hostname", "settings", "user", "setup code"}
    assert "12345678" in card(places)


def test_a_card_that_cannot_be_written_is_applied_once_and_told(places: Places) -> None:
    def refused() -> contextlib.AbstractContextManager[None]:
        raise OSError(30, "Read-only file system")

    (places.fat / "forebay.toml").write_text('[user]\nname = "admin"\npassword = "12345678"\n')
    found = apply(places, refused, NOW_MS, STAMP)
    assert found.errors == ["the card cannot be written (Read-only file system): passwords stay on it"]
    assert Passwords(places.users).verify("admin", b"12345678")
    assert not apply(places, refused, NOW_MS, STAMP).applied


def test_a_clock_that_was_never_set_makes_no_certificate_and_stops_nothing(places: Places) -> None:
    found = start(places, 'hostname = "line-4"\n', now_ms=0)
    assert [line.partition(":")[0] for line in found.errors] == ["certificate"]
    assert load(Sources(places.settings), {}).tls_cert is None
    assert start(places).errors == []
    assert load(Sources(places.settings), {}).tls_cert is not None


def test_damaged_files_of_the_gateway_are_told(places: Places) -> None:
    places.access.write_text("no toml [")
    found = start(places, '[user]\nname = "admin"\npassword = "12345678"\n')
    assert any(line.startswith("user:") for line in found.errors)
    assert any(line.startswith("setup code:") for line in found.errors)
    assert "12345678" in card(places)


def test_every_collector_and_uplink_of_a_card(places: Places) -> None:
    text = (
        '[[collector]]\nname = "tele"\nproduct = "telegraf"\npassword = "12345678"\ntopics = ["a/#"]\n'
        '[[uplink]]\nname = "cloud"\naddresses = ["mqtt://a:1883"]\nrules = [{direction = "out", filter = "a/#"}]\n'
    )
    assert start(places, text).errors == []
    found = load(Sources(places.settings), {})
    assert [rule.name for rule in found.collector] == ["tele"]
    assert len(found.uplink) == 1
    assert [rule.username for rule in Access(places.access).rules] == ["tele"]


def test_the_fat_is_read_only_again_whatever_happens(tmp_path: Path) -> None:
    calls: list[bool] = []
    with pytest.raises(KeyError), remounted(tmp_path, lambda mount, writing: calls.append(writing)):
        raise KeyError
    assert calls == [True, False]

"""Each kind of value: what it takes, what it refuses, and that what it shows reads back as the same value."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.limits import NEVER
from gateway.core.topics import check_filter
from gateway.settings import kinds
from gateway.settings.bridge import TopicLevel
from gateway.settings.kinds import (
    SIZE_MAX,
    Addresses,
    Boolean,
    Choice,
    Duration,
    Expiries,
    FilePath,
    Integer,
    Kind,
    Priorities,
    Ratio,
    Size,
)

FOREVER = {"never": NEVER}


@pytest.mark.parametrize(
    ("kind", "value", "parsed"),
    [
        (Integer(1, 65535), 1, 1),
        (Integer(1, 65535), 65535, 65535),
        (Integer(0, 9, {"unlimited": 0}), "unlimited", 0),
        (Ratio(1, 10), 1.5, 150),
        (Ratio(1, 10), 2, 200),
        (Size(), "512MiB", 512 << 20),
        (Size(), "1.5 KiB", 1536),
        (Size(), 7, 7),
        (Size(), "1024TiB", SIZE_MAX),
        (Size(words={"unlimited": 0}), "unlimited", 0),
        (Duration(), 30, 30),
        (Duration(), "30", 30),
        (Duration(), "30s", 30),
        (Duration(), "5m", 300),
        (Duration(), "2h", 7200),
        (Duration(), "7d", 604_800),
        (Duration(1, words=FOREVER), "never", NEVER),
        (Duration(ms=True), "250ms", 250),
        (Duration(ms=True), 0.5, 500),
        (Boolean(), True, True),
        (Choice("a", "b"), "b", "b"),
        (Choice("auto", "true", "false"), True, "true"),
        (FilePath(), "", None),
        (FilePath(), "a/b", Path("a/b")),
        (TopicLevel(), "", ""),
        (TopicLevel(), "host 1", "host 1"),
        (Addresses(), ["127.0.0.1:1883", "[::1]:0"], [("127.0.0.1", 1883), ("::1", 0)]),
        (Expiries(), [{"client_id": "c-*", "seconds": "7d"}], [("c-*", 604_800)]),
    ],
)
def test_takes(kind: Kind, value: object, parsed: object) -> None:
    assert kind.parse(value) == parsed
    assert type(kind.parse(value)) is type(parsed)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Integer(1, 65535), 0),
        (Integer(1, 65535), 65536),
        (Integer(1, 65535), True),
        (Integer(1, 65535), "5"),
        (Integer(1, 65535), 1.0),
        (Integer(0, 9), "unlimited"),
        (Ratio(1, 10), 0.9),
        (Ratio(1, 10), True),
        (Ratio(1, 10), float("nan")),
        (Ratio(1, 10), "1.5"),
        (Size(100), 99),
        (Size(), "x"),
        (Size(), "5 parsecs"),
        (Size(), "-1"),
        (Size(), False),
        (Size(), SIZE_MAX + 1),
        (Size(), "1025TiB"),
        (Size(words={"unlimited": 0}), "9" * 400 + "GiB"),
        (Duration(), -1),
        (Duration(), "1x"),
        (Duration(), ""),
        (Duration(), "500ms"),
        (Duration(), float("inf")),
        (Duration(0, 60), "2m"),
        (Duration(), "never"),
        (Boolean(), 1),
        (Boolean(), "true"),
        (Choice("a", "b"), "c"),
        (Choice("a", "b"), True),
        (Choice("a", "b"), ["a"]),
        (FilePath(), 3),
        (FilePath(), "a\0b"),
        (FilePath(required=True), ""),
        (TopicLevel(), 3),
        (TopicLevel(), "a/b"),
        (TopicLevel(), "+"),
        (TopicLevel(), "a\nb"),
        (TopicLevel(), "x" * 70_000),
        (Addresses(), "127.0.0.1:1883"),
        (Addresses(), [1883]),
        (Addresses(), ["127.0.0.1"]),
        (Addresses(), ["127.0.0.1:65536"]),
        (Addresses(), ["::1:1883"]),
        (Addresses(), ["a b:1"]),
        (Addresses(), ["..:1"]),
        (Addresses(), [f"{'a' * 64}:1"]),
        (Expiries(), {"client_id": "a", "seconds": 1}),
        (Expiries(), [{"client_id": "a"}]),
        (Expiries(), [{"client_id": "", "seconds": 1}]),
        (Expiries(), [{"client_id": "a", "seconds": 0}]),
        (Expiries(), [{"client_id": "a", "seconds": 1, "x": 1}]),
        (Expiries(), ["a"]),
    ],
)
def test_refuses(kind: Kind, value: object) -> None:
    assert kind.allowed
    with pytest.raises(ValueError, match=r"^$"):
        kind.parse(value)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Integer(), "12", 12),
        (Integer(), "-3", -3),
        (Integer(), "unlimited", "unlimited"),
        (Ratio(1, 10), "1.5", 1.5),
        (Size(), "1024", 1024),
        (Size(), "1KiB", "1KiB"),
        (Size(), "9" * 5000, "9" * 5000),
        (Integer(), "9" * 5000, "9" * 5000),
        (Integer(), "\u0663", "\u0663"),
        (Duration(), "5m", "5m"),
        (Boolean(), "YES", True),
        (Boolean(), "off", False),
        (Boolean(), "maybe", "maybe"),
        (Choice("a"), "a", "a"),
        (FilePath(), "x", "x"),
        (TopicLevel(), "x", "x"),
        (Addresses(), "a:1, b:2", ["a:1", "b:2"]),
        (Addresses(), "", []),
        (Expiries(), "c-*=7d,x=3", [{"client_id": "c-*", "seconds": "7d"}, {"client_id": "x", "seconds": "3"}]),
        (Expiries(), "", []),
    ],
)
def test_text_means_what_toml_would(kind: Kind, text: str, value: object) -> None:
    assert kind.from_text(text) == value


def _round_trip(kind: Kind, value: object) -> None:
    assert kind.parse(tomllib.loads("x = " + kind.show(value))["x"]) == value


@given(st.integers(0, SIZE_MAX))
def test_a_shown_size_reads_back(count: int) -> None:
    _round_trip(Size(words={"unlimited": 0}), count)


@given(st.integers(0, NEVER), st.booleans())
def test_a_shown_duration_reads_back(count: int, ms: bool) -> None:
    _round_trip(Duration(ms=ms, words=FOREVER) if not ms else Duration(ms=True), count)


@given(st.integers(100, 1000))
def test_a_shown_ratio_reads_back(percent: int) -> None:
    _round_trip(Ratio(1, 10), percent)


@given(st.lists(st.tuples(st.text(min_size=1), st.integers(1, NEVER))))
def test_shown_expiries_read_back(rows: list[tuple[str, int]]) -> None:
    _round_trip(Expiries(), rows)


@given(st.dictionaries(st.text(min_size=1).filter(lambda name: check_filter(name, 0)), st.integers(1, 255)))
def test_shown_priorities_read_back(rows: dict[str, int]) -> None:
    _round_trip(Priorities(), list(rows.items()))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Integer(words={"unlimited": 0}), 0),
        (Integer(), 5),
        (Boolean(), False),
        (Choice("a"), "a"),
        (FilePath(), None),
        (TopicLevel(), 'wei"rd'),
        (FilePath(), Path('we"ird\\ä')),
        (Addresses(), [("::1", 0), ("host", 1883)]),
    ],
)
def test_what_is_shown_reads_back(kind: Kind, value: object) -> None:
    _round_trip(kind, value)


def test_a_key_that_systemd_has_copied_for_this_process_is_read_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "keys_tls.key").touch()
    file = kinds.FilePath()
    key, other = str(kinds.KEYS / "tls.key"), str(kinds.KEYS / "other.key")
    assert file.parse(key) == Path(key)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert file.parse(key) == tmp_path / "keys_tls.key"
    assert file.parse(other) == Path(other)
    assert file.parse("/etc/ssl/tls.key") == Path("/etc/ssl/tls.key")

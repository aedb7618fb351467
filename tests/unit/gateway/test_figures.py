"""Figures for people."""

import pytest

from gateway.figures import count, rate, size, span


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB"), (3 << 40, "3.0 TiB")],
)
def test_size(number: int, shown: str) -> None:
    assert size(number) == shown


@pytest.mark.parametrize(
    ("millis", "shown"),
    [(0, "0.0 s"), (1500, "1.5 s"), (60_000, "1 min"), (7_800_000, "2 h 10 min"), (100 * 3_600_000, "4 d 4 h")],
)
def test_span(millis: int, shown: str) -> None:
    assert span(millis) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0"), (999, "999"), (99_999, "99,999"), (123_456, "123 k"), (999_600, "1 M"), (12_345_678, "12.3 M"),
     (1_234_567_890, "1.23 G"), (9e12, "9 T")],
)  # fmt: skip
def test_count(number: float, shown: str) -> None:
    assert count(number) == shown


@pytest.mark.parametrize(
    ("number", "shown"), [(0, "0"), (0.01, "< 0.1"), (0.4, "0.4"), (9.94, "9.9"), (9.96, "10"), (1234.5, "1,234")]
)
def test_rate(number: float, shown: str) -> None:
    assert rate(number) == shown

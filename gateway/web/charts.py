"""Small charts: the last hour of a series as the points of an SVG line."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from gateway.figures import span
from gateway.web.history import Series

WIDTH: Final = 240
HEIGHT: Final = 40


class Chart(NamedTuple):
    """Points for ``polyline`` and ``polygon`` in a box of WIDTH x HEIGHT, the highest value, and the time covered."""

    line: str
    area: str
    top: float
    covers: str

    @property
    def box(self) -> str:
        return f"0 0 {WIDTH} {HEIGHT}"


EMPTY: Final = Chart("", "", 0.0, "")


def chart(series: Series | None, most: int = 120) -> Chart:
    """At most so many points; the newest is at the right edge."""
    if series is None or not series.points:
        return EMPTY
    values = peaks(list(series.points), most)
    top = max(values)
    scale = (HEIGHT - 4) / top if top > 0 else 0.0
    step = WIDTH / max(len(values) - 1, 1)
    points = [f"{number * step:.0f},{HEIGHT - 2 - value * scale:.0f}" for number, value in enumerate(values)]
    if len(points) == 1:
        points.append(f"{WIDTH},{points[0].partition(',')[2]}")
    line = " ".join(points)
    return Chart(line, f"0,{HEIGHT} {line} {WIDTH},{HEIGHT}", top, span(len(series.points) * series.step_s * 1000))


def peaks(values: Sequence[float], most: int) -> list[float]:
    """At most so many values, the highest of each stretch."""
    if len(values) <= most:
        return list(values)
    return [max(values[n * len(values) // most : (n + 1) * len(values) // most]) for n in range(most)]

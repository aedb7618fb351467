"""Figures for people."""


def size(count: int) -> str:
    """Bytes for people: 12.3 MiB."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def span(millis: float) -> str:
    """A time span for people: 3.2 s, 5 min, 2 h 10 min, 4 d 3 h."""
    if millis < 60_000:
        return f"{millis / 1000:.1f} s"
    minutes = int(millis // 60_000)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 24 else f"{hours // 24} d {hours % 24} h"


def count(number: float) -> str:
    """A number for people: 999, 12,345, 1.23 M."""
    if number < 100_000:
        return f"{number:,.0f}"
    for factor, unit in ((1e6, "k"), (1e9, "M"), (1e12, "G")):
        if number < factor * 0.9995:
            return f"{number * 1000 / factor:.3g} {unit}"
    return f"{number / 1e12:,.0f} T"


def rate(per_second: float) -> str:
    """So many a second, for people: 0, 0.4, 12, 3,456."""
    if 0 < per_second < 0.05:
        return "< 0.1"
    return f"{per_second:.1f}" if 0 < per_second < 9.95 else count(per_second)

"""What a terminal gets to see of values that others made."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def metric_value(metric: dict[str, Any]) -> str:
    """The value of a metric as ``sparkplug.plain`` gives it."""
    value = metric.get("value")
    if value is None:
        return "null"
    return shown(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def time_of(ms: int | None) -> str:
    """UTC, or the number where the calendar ends."""
    if ms is None:
        return "no time"
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return str(ms)


def shown(text: str) -> str:
    """Without anything that a terminal would act on."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)

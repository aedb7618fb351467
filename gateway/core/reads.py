"""Segments of the log come from the store: they go to whom they were asked for."""

from mypy_extensions import i64

from gateway.core import earliest, readahead, retention
from gateway.core.pump import pump
from gateway.core.shared import pump_group
from gateway.core.state import Core


def arrived(core: Core, token: int, rows: list[tuple[int, bytes]], now: i64) -> None:
    reading = core.readings.pop(token, None)
    if reading is None:
        return
    b = reading.backlog
    if b is None:
        readahead.give_up(core, reading, rows, now)
    elif reading.reason == earliest.COUNT:
        if earliest.counted(core, b, reading, rows, now) and b.session is not None:
            pump(core, b.session, now)
    elif reading.reason:
        retention.trimmed(core, b, reading, rows, now)
        if b.session is not None:
            pump(core, b.session, now)
    else:
        for ready in readahead.loaded(core, reading, rows, now):
            if ready.session is not None:
                pump(core, ready.session, now)
            elif ready.group is not None:
                pump_group(core, ready.group, now)

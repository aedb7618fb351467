"""How much of the log stays after everybody has it: for who begins with the earliest, within bytes, age and budget."""

from typing import Final

from mypy_extensions import i64

from gateway.core.segments import delete
from gateway.core.state import Core

SHARE: Final = 90  # percent of the budget that the store may fill before this goes: it must never hold publishers back


def trim(core: Core, now: i64) -> None:
    """Once a second: the oldest go first."""
    kept = core.kept
    if not kept.segments:
        return
    limits = core.limits
    most: i64 = limits.log_keep_bytes
    age_ms: i64 = 1000 * limits.log_keep_age_s
    over: i64 = 0
    if limits.store_bytes_max:
        over = core.used_bytes - limits.store_bytes_max * SHARE // 100
    for id in sorted(kept.segments):
        segment = kept.segments[id]
        if kept.bytes <= most and over <= 0 and not (age_ms and now - segment.time > age_ms):
            break
        del kept.segments[id]
        kept.bytes -= segment.bytes
        over -= segment.bytes
        delete(core, segment, now)

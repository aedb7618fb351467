"""What the gateway itself limits: disk, expiry, retention, and whether it writes what it acknowledges."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.doctor import engines
from gateway.doctor.case import Case, setting_span, span
from gateway.doctor.finding import (
    ALWAYS,
    AWAY_TOO_LONG,
    COLLECTOR,
    ERROR,
    GATEWAY,
    NOTE,
    POWER_CUT,
    WARNING,
    Finding,
)
from gateway.doctor.size import PAGE, Load, pages_of, row_bytes
from gateway.doctor.snapshot import Keeper

HERE: Final = "this gateway"
RECORD_BYTES: Final = 40  # of topic and record beside a payload, about
WORN: Final = 0.2  # of its life left
LASTS_YEARS: Final = 2
RATE_LEAST: Final = 0.01  # messages/s below which nothing is said of a size
# reasons of drops that another finding has: none is told twice
_TOLD: Final = {
    "session_end": "", "qos0_offline": "", "acl": "", "too_large": "", "congested": "", "shared_qos2": "",
}  # fmt: skip
_DROP_SETTINGS: Final = {
    "queue_full": "mqtt.max_mqueue_len",
    "expired": "mqtt.message_expiry_interval",
    "disk": "store.max_bytes",
    "evicted": "store.max_bytes",
    "retention": "application_log.max_age",
    "damaged": "the disk",
}


def check(case: Case) -> Iterator[Finding]:
    yield from _disk(case)
    yield from _flash(case)
    yield from _expiry(case)
    for keeper in case.collectors:
        yield from _queue(case, keeper)
        yield from _drops(case, keeper)
    yield from _ways(case)
    yield from _uplinks(case)
    yield from engines.check(case.snapshot.engine)


def _disk(case: Case) -> Iterator[Finding]:
    gateway = case.gateway
    if gateway.safe_mode:
        yield Finding(
            "safe_mode", ERROR, f"the gateway is in safe mode {gateway.safe_mode}",
            "uplinks are held until it ends; what is for them waits. The log says what it crashed of",
            "what has changed last, then: forebay safe-mode leave", GATEWAY, HERE,
        )  # fmt: skip
    if gateway.read_only:
        yield Finding(
            "read_only", ERROR, f"the disk cannot be written: {gateway.read_only}",
            "QoS 0 passes, nothing is kept: what must be is held, then refused, and no persistent session gets in",
            "the disk: repair or replace it; the gateway notices", GATEWAY, HERE, loses=(ALWAYS,),
        )  # fmt: skip
    elif gateway.store_error:
        yield Finding(
            "store_fails", ERROR, f"the store fails: {gateway.store_error}",
            "nothing is acknowledged that must be kept; publishers are held back, and refused after store.error_hold_s",
            "the disk: replace it, or make room", GATEWAY, HERE, loses=(ALWAYS,),
        )  # fmt: skip
    if gateway.durability != "fsync":
        yield Finding(
            "durability_os", WARNING, "what is acknowledged outlives a crash of the broker, but no power cut",
            'with durability = "os" a PUBACK does not wait for the disk',
            'durability = "fsync"', GATEWAY, HERE, loses=(POWER_CUT,), only_while="the machine has power",
        )  # fmt: skip
    keeping = [keeper for keeper in case.collectors if keeper.persistent]
    rate = max((keeper.rate or 0.0 for keeper in keeping), default=0.0)
    if rate < RATE_LEAST:
        return
    leaf, pages = pages_of(row_bytes(Load(rate=rate, payload=gateway.message_bytes), 1))
    size = leaf + pages * PAGE  # alone in its commit, the most that it takes
    room = gateway.store_max - gateway.store_used
    lasts, wanted = max(0.0, room / (rate * size)), rate * size * case.ask.outage_s
    why = f"{rate:.3g} messages/s of {size:.0f} bytes fill what is left in {span(lasts)}"
    if lasts < case.ask.outage_s:
        yield Finding(
            "disk_budget", ERROR, f"the disk budget of {_size(gateway.store_max)} is too small for this outage",
            f"{why}; then publishers are held back, and after store.push_back_s the oldest messages are dropped",
            f'store.max_bytes = "{_mib(gateway.store_used + wanted * 1.2)}"', GATEWAY, HERE, loses=(AWAY_TOO_LONG,),
            only_while=f"the collectors are away for less than {span(lasts)}",
        )  # fmt: skip
    elif gateway.store_free - gateway.store_min_free < wanted:
        lasts = max(0.0, (gateway.store_free - gateway.store_min_free) / (rate * size))
        yield Finding(
            "disk_free", ERROR, f"only {_size(gateway.store_free)} are free on the disk of the store",
            f"{rate:.3g} messages/s of {size:.0f} bytes fill them in {span(lasts)}, before the budget is reached",
            "data_dir on a larger disk", GATEWAY, HERE, loses=(AWAY_TOO_LONG,),
            only_while=f"the collectors are away for less than {span(lasts)}",
        )  # fmt: skip


def _flash(case: Case) -> Iterator[Finding]:
    """Storage that comes to its end, and storage that is written to as if it had none."""
    gateway = case.gateway
    left, years = gateway.flash_left, gateway.flash_years
    why = "flash that has been written too often fails, as a rule at once and as a whole"
    replace = "the storage: replace it, after forebay backup"
    if gateway.flash_spares_low or (left is not None and left <= 0):
        said = "its spare blocks are nearly used up" if gateway.flash_spares_low else "nothing of its life is left"
        yield Finding("flash_failing", ERROR, f"the storage is about to fail: {said}", why, replace, GATEWAY, HERE)
    elif left is not None and left < WORN:
        yield Finding(
            "flash_worn", WARNING, f"the storage is worn: {100 * left:.0f} % of its life are left", why, replace,
            GATEWAY, HERE,
        )  # fmt: skip
    elif years is not None and years < LASTS_YEARS:
        yield Finding(
            "flash_wear", WARNING, f"the storage lasts {span(years * 365 * 86_400)} more at this rate",
            f"{_size(gateway.flash_day_bytes)} a day are written to it; bursts and longer commits write less "
            "(docs/sizing.md)",
            "store.commit_interval_ms higher, or better storage", GATEWAY, HERE,
        )  # fmt: skip


def _expiry(case: Case) -> Iterator[Finding]:
    gateway, wanted = case.gateway, setting_span(case.ask.outage_s)
    if 0 < gateway.message_expiry_s < case.ask.outage_s and any(keeper.persistent for keeper in case.collectors):
        yield Finding(
            "message_expiry", ERROR, f"messages expire after {span(gateway.message_expiry_s)}",
            "what waits longer for its collector is dropped",
            f'mqtt.message_expiry_interval = "{wanted}"', GATEWAY, HERE, loses=(AWAY_TOO_LONG,),
            only_while=f"the collectors are away for less than {span(gateway.message_expiry_s)}",
        )  # fmt: skip


def _queue(case: Case, keeper: Keeper) -> Iterator[Finding]:
    """The limits of one persistent queue against the measured rate."""
    gateway, common = case.gateway, _common(keeper)
    if not keeper.persistent:
        return
    outage, rate = case.ask.outage_s, keeper.rate or 0.0
    if keeper.application:
        row = f"in the [[client_type]] row of {keeper.client_id}, or application_log"
        if keeper.max_age_s is not None and keeper.max_age_s < outage:
            yield _kept(
                "retention_age", f"unread messages of {keeper.client_id} fall off after {span(keeper.max_age_s)}",
                f'max_age = "{setting_span(outage)}" {row}', keeper.max_age_s, common,
            )  # fmt: skip
        if keeper.max_bytes is not None and rate >= RATE_LEAST:
            lasts = keeper.max_bytes / (rate * (gateway.message_bytes + RECORD_BYTES))
            if lasts < outage:
                need = rate * (gateway.message_bytes + RECORD_BYTES) * outage * 1.2
                yield _kept(
                    "retention_bytes", f"{keeper.client_id} may have {_size(keeper.max_bytes)} unread",
                    f'max_bytes = "{_mib(need)}" {row}', lasts, common,
                )  # fmt: skip
        return
    prefix = "mqtt.persistent-session.device.persisted-messages"
    if 0 < gateway.device_ttl_s < outage:
        yield _kept(
            "device_ttl", f"messages for {keeper.client_id} are dropped after {span(gateway.device_ttl_s)}",
            f'{prefix}.ttl = "{setting_span(outage)}"', gateway.device_ttl_s, common,
        )  # fmt: skip
    if gateway.device_limit and rate >= RATE_LEAST and gateway.device_limit < rate * outage:
        yield _kept(
            "device_limit", f"only the newest {gateway.device_limit} messages wait for {keeper.client_id}",
            f"{prefix}.limit = {round(rate * outage * 1.2)}", gateway.device_limit / rate, common,
        )  # fmt: skip


def _kept(code: str, what: str, setting: str, lasts: float, common: Mapping[str, Any]) -> Finding:
    return Finding(
        code, ERROR, what, f"that is {span(lasts)} of what comes for it; the oldest goes first", setting, GATEWAY, HERE,
        loses=(AWAY_TOO_LONG,), only_while=f"the collector is away for less than {span(lasts)}", **common,
    )  # fmt: skip


def _drops(case: Case, keeper: Keeper) -> Iterator[Finding]:
    lost = {reason: count for reason, count in keeper.drops.items() if count and reason not in _TOLD}
    if lost and keeper.persistent:
        worst = max(lost, key=lambda reason: lost[reason])
        shown = ", ".join(f"{count} {reason}" for reason, count in sorted(lost.items()))
        yield Finding(
            "messages_dropped", WARNING, f"messages for {keeper.client_id} were dropped: {shown}",
            "counted over the life of its session; forebay size tells what an outage needs",
            _DROP_SETTINGS.get(worst, worst), GATEWAY, HERE, **_common(keeper),
        )  # fmt: skip


def _ways(case: Case) -> Iterator[Finding]:
    gateway = case.gateway
    if gateway.flush_evicted:
        yield Finding(
            "flush_evictions", WARNING,
            f"{gateway.flush_evicted} times a connection was flushed because {gateway.flush_max} others gather",
            "buffered delivery gathers for fewer connections than there are, and saves little",
            f"mqtt.buffered-delivery.session-cache-max-size = {10 * max(gateway.flush_max, 10)}", GATEWAY, HERE,
        )  # fmt: skip
    if not gateway.synchronised:
        yield Finding(
            "clock_unsynchronised", NOTE, "the clock of the gateway is not synchronised",
            "nothing is lost by it: over a reboot expiry counts as if no time had passed; Sparkplug times may be off",
            "an NTP server (systemd-timesyncd or chrony)", GATEWAY, HERE,
        )  # fmt: skip


def _uplinks(case: Case) -> Iterator[Finding]:
    """Uplinks that do not hand on: what waits for them stays in the log, as long as there is room."""
    for uplink in case.snapshot.uplinks:
        name, error = uplink["name"], uplink.get("error") or uplink.get("last_error") or "no reason was given"
        machine = f"the broker at {uplink.get('address') or ', '.join(uplink.get('addresses', ()))}"
        if uplink["state"] == "stalled":
            yield Finding(
                "uplink_heartbeat", ERROR, f"the uplink {name} is connected, but its heartbeat does not come back",
                f"{error}: connected is not delivered, and nothing shows that what is sent there goes on",
                "what that broker lets its user publish and subscribe, and its own bridge", COLLECTOR, machine,
            )  # fmt: skip
        elif uplink["state"] == "refused":
            yield Finding(
                "uplink_refused", WARNING, f"the uplink {name} is refused", error,
                f"forebay uplink test {name}", GATEWAY, HERE,
            )  # fmt: skip
        for topic, code in (uplink.get("denied") or {}).items():
            yield Finding(
                "uplink_denied", ERROR, f"the broker of the uplink {name} does not let it subscribe to {topic}",
                f"it answered 0x{code:02X}: nothing of it comes in",
                "what that broker lets its user publish and subscribe", COLLECTOR, machine,
            )  # fmt: skip


def _common(keeper: Keeper) -> dict[str, Any]:
    return {"collector": keeper.client_id}


def _size(count: float) -> str:
    return f"{count / (1 << 20):.3g} MiB" if count < 1 << 30 else f"{count / (1 << 30):.3g} GiB"


def _mib(count: float) -> str:
    """As the value of a setting."""
    return f"{max(1, -(-int(count) // (1 << 20)))}MiB"

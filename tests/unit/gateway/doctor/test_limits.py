"""What the gateway limits, against what comes."""

from typing import Any

import pytest

from tests.unit.gateway.doctor.scene import codes, only, scene

DEVICE = "mqtt.persistent-session.device.persisted-messages"


@pytest.mark.parametrize(
    ("gateway", "keeper", "code", "setting"),
    [
        ({"store_max": 50 << 20}, {"rate": 20.0}, "disk_budget", 'store.max_bytes = "113MiB"'),
        ({"store_free": 10 << 20}, {"rate": 20.0}, "disk_free", "data_dir on a larger disk"),
        ({"message_expiry_s": 60}, {}, "message_expiry", 'mqtt.message_expiry_interval = "8h"'),
        ({"device_ttl_s": 60}, {}, "device_ttl", f'{DEVICE}.ttl = "8h"'),
        ({"device_limit": 1000}, {"rate": 10.0}, "device_limit", f"{DEVICE}.limit = 345600"),
        ({}, {"application": True, "max_age_s": 60}, "retention_age",
         'max_age = "8h" in the [[client_type]] row of historian, or application_log'),
        ({}, {"application": True, "max_bytes": 1 << 20, "rate": 10.0}, "retention_bytes",
         'max_bytes = "33MiB" in the [[client_type]] row of historian, or application_log'),
    ],
)  # fmt: skip
def test_a_limit_below_what_an_outage_brings(
    gateway: dict[str, Any], keeper: dict[str, Any], code: str, setting: str
) -> None:
    found = only(scene(gateway=gateway, keeper=keeper))
    assert (found.code, found.setting, found.severity, found.where) == (code, setting, "error", "gateway")
    assert found.loses == ("collector_away_too_long",)
    assert found.only_while.endswith(found.why.split(" is ")[-1].split(" of ")[0]) or "less than" in found.only_while


def test_limits_that_suffice() -> None:
    assert codes(scene(gateway={"device_limit": 400_000, "device_ttl_s": 86_400}, keeper={"rate": 10.0})) == []
    assert codes(scene(gateway={"device_limit": 1000, "device_ttl_s": 60}, keeper={"application": True})) == []


def test_nothing_is_said_of_sizes_without_a_rate() -> None:
    assert codes(scene(gateway={"device_limit": 1, "store_max": 1 << 20}, keeper={"rate": None})) == []


@pytest.mark.parametrize(
    ("gateway", "code", "severity", "setting"),
    [
        ({"durability": "os"}, "durability_os", "warning", 'durability = "fsync"'),
        ({"store_error": "disk I/O error"}, "store_fails", "error", "the disk: replace it, or make room"),
        ({"flush_evicted": 4, "flush_max": 100}, "flush_evictions", "warning",
         "mqtt.buffered-delivery.session-cache-max-size = 1000"),
        ({"read_only": "/data: Read-only file system"}, "read_only", "error",
         "the disk: repair or replace it; the gateway notices"),
        ({"safe_mode": "after 5 crashes"}, "safe_mode", "error",
         "what has changed last, then: forebay safe-mode leave"),
        ({"flash_left": 0.1}, "flash_worn", "warning", "the storage: replace it, after forebay backup"),
        ({"flash_left": 0.0}, "flash_failing", "error", "the storage: replace it, after forebay backup"),
        ({"flash_left": 0.9, "flash_spares_low": True}, "flash_failing", "error",
         "the storage: replace it, after forebay backup"),
        ({"flash_left": 0.9, "flash_years": 0.5, "flash_day_bytes": 1 << 34}, "flash_wear", "warning",
         "store.commit_interval_ms higher, or better storage"),
        ({"synchronised": False}, "clock_unsynchronised", "note", "an NTP server (systemd-timesyncd or chrony)"),
    ],
)  # fmt: skip
def test_the_gateway_itself(gateway: dict[str, Any], code: str, severity: str, setting: str) -> None:
    found = only(scene(gateway=gateway))
    assert (found.code, found.severity, found.setting) == (code, severity, setting)


def test_storage_that_lasts() -> None:
    assert codes(scene(gateway={"flash_left": 0.5, "flash_years": 2.5})) == []
    assert codes(scene(gateway={"flash_left": None, "flash_years": None})) == []


def test_drops_that_nothing_else_explains() -> None:
    found = only(scene(keeper={"drops": {"evicted": 3, "qos0_offline": 9}}))
    assert (found.code, found.setting) == ("messages_dropped", "store.max_bytes")
    assert "3 evicted" in found.what
    assert codes(scene(keeper={"drops": {"qos0_offline": 9}})) == []


def test_uplinks_are_told_as_they_come() -> None:
    row: dict[str, Any] = {
        "name": "cloud",
        "state": "forwarding",
        "address": "mqtt://b:1883",
        "error": None,
        "denied": {},
    }
    assert codes(scene(uplinks=(row,))) == []
    stalled = only(scene(uplinks=({**row, "state": "stalled", "error": "heartbeat 3 did not come back"},)))
    assert (stalled.code, stalled.machine) == ("uplink_heartbeat", "the broker at mqtt://b:1883")
    assert "heartbeat 3" in stalled.why
    refused = only(scene(uplinks=({**row, "state": "refused", "address": None, "addresses": ["mqtt://b:1883"]},)))
    assert (refused.code, refused.setting) == ("uplink_refused", "forebay uplink test cloud")
    denied = only(scene(uplinks=({**row, "denied": {"line/#": 0x87}},)))
    assert denied.code == "uplink_denied" and "line/#" in denied.what

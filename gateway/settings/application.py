"""The settings of the log that APPLICATION clients read (docs/delivery.md); a client's own rule wins over them."""

import dataclasses

from gateway.settings.entry import setting
from gateway.settings.kinds import Choice, Duration, Integer, Size
from gateway.settings.uplink import UplinkSettings


@dataclasses.dataclass(kw_only=True, slots=True)
class ApplicationSettings(UplinkSettings):
    """Part of ``Settings``."""

    application_log_start: str = setting(
        "application_log.start",
        Choice("end", "earliest"),
        "end",
        "Where a new APPLICATION session begins: with what comes, or with the earliest that the log still has for it.",
        "app_start",
    )
    application_log_max_bytes: int = setting(
        "application_log.max_bytes",
        Size(words={"unlimited": 0}),
        "unlimited",
        "Unread bytes of one APPLICATION session; the oldest above it fall off, counted as retention.",
        "app_max_bytes",
    )
    application_log_max_age: int = setting(
        "application_log.max_age",
        Duration(words={"never": 0}),
        "never",
        "Age at which unread messages of an APPLICATION session fall off, counted as retention.",
        "app_max_age_s",
    )
    application_log_drain_rate: int = setting(
        "application_log.drain_rate",
        Integer(0, 1_000_000, {"unlimited": 0}),
        "unlimited",
        "Messages per second that one APPLICATION gets from its queue.",
        "app_drain_rate",
    )
    application_log_keep_bytes: int = setting(
        "application_log.keep_bytes",
        Size(),
        0,
        "Log that stays after everybody has it, for sessions that start at the earliest; then nothing is elided.",
        "log_keep_bytes",
    )
    application_log_keep_age: int = setting(
        "application_log.keep_age",
        Duration(words={"unlimited": 0}),
        "unlimited",
        "How long that log stays at most.",
        "log_keep_age_s",
    )

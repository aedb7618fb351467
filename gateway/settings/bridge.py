"""The settings of the Sparkplug bridge (docs/sparkplug.md)."""

import dataclasses
from typing import final

from gateway.settings.entry import setting
from gateway.settings.kinds import Boolean, Duration, Integer, quoted
from gateway.settings.outbound import OutboundSettings
from sparkplug.topic import TopicError, build_state, check_id


@final
class TopicLevel:
    """One level of a topic; empty = none."""

    allowed = "one level of a topic, without + # and /"

    def parse(self, value: object) -> str:
        if not isinstance(value, str) or (value and not value.isprintable()):
            raise ValueError
        try:
            return check_id("", value) if value else ""
        except TopicError:
            raise ValueError from None

    def from_text(self, text: str) -> object:
        return text

    def show(self, value: object) -> str:
        return quoted(str(value))


def state_topics(host_id: str) -> list[str]:
    """Where a host says whether it is online: as in 3.0 and as in 2.2; none without an id."""
    return [build_state(host_id), build_state(host_id, legacy=True)] if host_id else []


@dataclasses.dataclass(kw_only=True, slots=True)
class BridgeSettings(OutboundSettings):
    """Part of ``Settings``."""

    bridge_enabled: bool = setting(
        "bridge.enabled",
        Boolean(),
        True,
        "Sparkplug: what nodes say is kept on disk and given to persistent sessions at QoS 1, whatever its own QoS.",
        "bridge",
    )
    bridge_elide: bool = setting(
        "bridge.elide",
        Boolean(),
        False,
        "QoS 0 raised to 1 may be acknowledged before it is on disk; a crash then loses what was on its way.",
        "bridge_elide",
    )
    bridge_death_timestamp: bool = setting(
        "bridge.death_timestamp",
        Boolean(),
        False,
        "An NDEATH that is a will gets the time of its publication (UTC) in place of the one it was made with.",
        "bridge_death_time",
    )
    bridge_command_expiry: int = setting(
        "bridge.command_expiry",
        Duration(0, 86400, ms=True),
        "30s",
        "How long an NCMD or DCMD waits for a node that is away; 0 = as any other message.",
        "command_expiry_ms",
    )
    bridge_reorder_timeout: int = setting(
        "bridge.reorder_timeout",
        Duration(0.1, 600, ms=True),
        "2s",
        "How long a message of a node may be missing in its sequence before a rebirth is asked for.",
    )
    bridge_rebirths_per_minute: int = setting(
        "bridge.rebirths_per_minute",
        Integer(0, 6000),
        60,
        "Rebirths that the gateway asks for by itself, of all nodes together; 0 = none.",
    )
    bridge_host_id: str = setting(
        "bridge.host_id",
        TopicLevel(),
        "",
        "Host id under which the gateway says in STATE whether its disk takes data; empty = none.",
    )

"""Whether the engine that keeps the log of the applications takes messages, and keeps what it takes."""

from collections.abc import Iterator, Mapping
from typing import Any

from gateway.doctor.finding import AWAY_TOO_LONG, GATEWAY, NOTE, POWER_CUT, WARNING, Finding

HERE = "this gateway"


def check(engine: Mapping[str, Any]) -> Iterator[Finding]:
    if "state" not in engine:
        return
    name, log = engine["name"], engine.get("log") or {}
    machine = f"the servers of {name}"
    if engine["state"] in ("down", "refused"):
        yield Finding(
            "engine_down", WARNING, f"the engine {name} does not take messages: {engine.get('error')}",
            f"{engine.get('waiting', 0)} messages wait in the store here; applications get nothing new of these topics",
            "application_log, and the servers that it names", GATEWAY, HERE, loses=(AWAY_TOO_LONG,),
            only_while="the store here has room",
        )  # fmt: skip
    if log.get("sync") == "not always":
        yield Finding(
            "engine_sync", WARNING, f"{name} acknowledges messages before they are on a disk",
            f"{log.get('replicas', 1)} servers have each message in memory: a power cut of all of them loses the last",
            "sync_interval: always", GATEWAY, machine, loses=(POWER_CUT,), only_while="one of its machines has power",
        )  # fmt: skip
    elif log.get("sync") == "unknown":
        yield Finding(
            "engine_sync_unknown", NOTE, f"whether {name} syncs each message to the disk is not known",
            "its servers say so at their monitoring addresses",
            "application_log.nats.monitors, and sync_interval: always", GATEWAY, HERE,
        )  # fmt: skip
    if log.get("replicas_behind"):
        yield Finding(
            "engine_replicas", WARNING, f"servers of {name} are away or behind: {', '.join(log['replicas_behind'])}",
            "a message counts as kept while most of the servers have it: with one more away nothing is taken",
            "these servers", GATEWAY, machine,
        )  # fmt: skip
    if name == "kafka":
        yield from _kafka(log, machine)


def _kafka(log: Mapping[str, Any], machine: str) -> Iterator[Finding]:
    if log.get("replicas") == 1:
        yield Finding(
            "engine_one_replica", WARNING, "one server alone keeps the topics of the applications",
            "Kafka acknowledges a message before it is on a disk: when that server loses power, the last are lost",
            "application_log.kafka.replication = 3, for topics made from then on", GATEWAY, machine,
            loses=(POWER_CUT,), only_while="that machine has power",
        )  # fmt: skip
    if log.get("fallen_off"):
        yield Finding(
            "engine_fallen_off", WARNING, f"{log['fallen_off']} messages fell off topics before they were read",
            "Kafka deletes the oldest by age and size, whether they were read or not",
            "application_log.max_age and max_bytes, or retention.ms and retention.bytes of topics that are there",
            GATEWAY, machine, loses=(AWAY_TOO_LONG,), only_while="its application comes before that",
        )  # fmt: skip

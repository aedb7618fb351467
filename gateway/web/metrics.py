"""Metrics in Prometheus' text formats, made of a report of the broker (docs/metrics.md).

Counters count from the start of the broker: what earlier runs counted is left out, since a crash may have cost some of
it, and a counter that falls a little looks like one that began anew.
"""

import os
from collections.abc import Iterator
from typing import Any, Final, final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from gateway.core import ledger

PREFIX: Final = "forebay_"
REASONS: Final = (
    ledger.QUEUE_FULL, ledger.EXPIRED, ledger.QOS0_OFFLINE, ledger.TOO_LARGE, ledger.SESSION_END, ledger.DISK,
    ledger.EVICTED, ledger.SHARED_QOS2, ledger.CONGESTED, ledger.ACL, ledger.DAMAGED, ledger.RETENTION,
)  # fmt: skip
ACKS: Final = ("puback", "pubrec", "pubrel", "pubcomp")

Report = dict[str, Any]

# name, help, label, and for each of its values the ledger's counter
COUNTERS: Final = (
    ("messages_received", "Messages published to the broker.", "qos", {q: f"received_qos{q}" for q in "012"}),
    ("messages_sent", "Messages delivered, repetitions included.", "qos", {q: f"sent_qos{q}" for q in "012"}),
    ("message_received_bytes", "Payload of received messages.", "qos", {q: f"received_bytes_qos{q}" for q in "012"}),
    ("message_sent_bytes", "Payload of delivered messages.", "qos", {q: f"sent_bytes_qos{q}" for q in "012"}),
    ("messages_unmatched", "Messages received that nobody subscribed to.", "", {"": "no_subscriber"}),
    ("acknowledgements_received", "Acknowledgements from clients.", "type", {t: f"{t}_received" for t in ACKS}),
    ("acknowledgements_sent", "Acknowledgements to clients.", "type", {t: f"{t}_sent" for t in ACKS}),
    ("packets_received", "MQTT packets of all types.", "", {"": "packets_received"}),
    ("packets_sent", "MQTT packets of all types.", "", {"": "packets_sent"}),
    ("network_received_bytes", "Everything on the wire, before TLS.", "", {"": "bytes_received"}),
    ("network_sent_bytes", "Everything on the wire, before TLS.", "", {"": "bytes_sent"}),
    ("connections_accepted", "CONNECT packets accepted.", "", {"": "connections"}),
    ("connections_refused", "CONNECT packets refused.", "", {"": "connections_refused"}),
    ("takeovers", "Connections ended by another with the same client id.", "", {"": "takeovers"}),
)  # fmt: skip

# name, help, where it stands in the status, and what it is divided by
GAUGES: Final = (
    ("connections", "Open connections.", "connections", 1),
    ("subscriptions", "Subscriptions of all sessions.", "subscriptions", 1),
    ("retained_messages", "Retained messages.", "retained", 1),
    ("queue_messages", "Messages that wait in queues.", "queue.messages", 1),
    ("queue_bytes", "Size of these messages.", "queue.bytes", 1),
    ("queue_oldest_seconds", "Age of the oldest message that is still needed.", "queue.oldest_ms", 1000),
    ("inflight_messages", "Messages sent and not acknowledged yet.", "inflight", 1),
    ("slow_client_bytes", "RAM held for clients that read slowly.", "waiting_bytes", 1),
    ("publishers_held_back", "Publishers that are not read for now.", "parked", 1),
    ("delayed_messages", "Messages that wait for their time.", "delayed.messages", 1),
    ("delayed_bytes", "Size of these messages.", "delayed.bytes", 1),
    ("drain_sessions", "Connected sessions whose queues are being emptied.", "drain.sessions", 1),
    ("drain_messages_per_second", "Pace at which these queues are read.", "drain.messages_s", 1),
    ("drain_eta_seconds", "Time until the last of them is empty; absent while unknown.", "drain.eta_s", 1),
    ("store_used_bytes", "Disk that the message store uses.", "store.used_bytes", 1),
    ("store_limit_bytes", "Disk budget of the message store.", "store.max_bytes", 1),
    ("store_file_bytes", "Size of the store's files.", "store.file_bytes", 1),
    ("store_free_bytes", "Space left on the file system.", "store.free_bytes", 1),
    ("store_kept_bytes", "Log kept after everybody has it.", "store.kept_bytes", 1),
    ("store_segments", "Segments of the log.", "store.segments", 1),
    ("store_full", "1 while the disk budget is used up.", "store.full", 1),
    ("ledger_exact", "0 once a crash may have cost counts of earlier runs.", "exact", 1),
    ("clock_synchronised", "1 while the system clock is synchronised.", "clock.synchronised", 1),
    ("clock_gateway_seconds", "The gateway's own clock, by which messages expire.", "clock.gateway_ms", 1000),
    ("uptime_seconds", "Since the broker started.", "uptime_s", 1),
)

# of each listed session
SESSION_GAUGES: Final = (
    ("session_queue_messages", "Messages that wait for this session.", "queue_messages", 1),
    ("session_queue_bytes", "Size of these messages.", "queue_bytes", 1),
    ("session_oldest_seconds", "Age of the oldest message it still needs.", "oldest_ms", 1000),
    ("session_inflight_messages", "Sent to it and not acknowledged yet.", "inflight", 1),
    ("session_connected", "1 while its client is connected.", "connected", 1),
    ("session_drain_eta_seconds", "Time until its queue is empty; absent while unknown.", "eta_s", 1),
)

WEAR_GAUGES: Final = (
    ("disk_written_bytes_per_day", "Of the last days.", "day_bytes"),
    ("disk_life_left_ratio", "What is left of its life, of 1.", "life_left"),
    ("disk_life_left_years", "At the rate of the last days.", "years_left"),
    ("disk_spares_low", "1 when most of its spare blocks are used.", "spares_low"),
)
UPLINK_UP: Final = ("connected", "forwarding")
UPLINK_GAUGES: Final = (
    ("uplink_queue_messages", "Messages that wait for this uplink.", "queue_messages", 1),
    ("uplink_queue_bytes", "Size of these messages.", "queue_bytes", 1),
    ("uplink_oldest_seconds", "Age of the oldest message it still has to forward.", "oldest_ms", 1000),
    ("uplink_inflight_messages", "Sent upstream and not acknowledged yet.", "inflight", 1),
    ("uplink_messages_per_second", "Pace at which it forwards.", "rate_s", 1),
    ("uplink_drain_eta_seconds", "Time until its queue is empty; absent while unknown.", "eta_s", 1),
)


ENGINE_GAUGES: Final = (
    ("engine_waiting_messages", "Messages that wait in the store for the engine.", "waiting"),
    ("engine_waiting_bytes", "Size of these messages.", "waiting_bytes"),
    ("engine_inflight_messages", "On their way to the engine and not kept by it yet.", "in_flight"),
    ("engine_log_messages", "Messages that the engine holds.", "messages"),
    ("engine_log_bytes", "Size of these messages.", "bytes"),
)


@final
class Exposition(Collector):
    """One report as metric families."""

    def __init__(self, report: Report, sessions: int) -> None:
        self._report = report
        self._status: Report = report["status"]
        self._rows: list[Report] = report["sessions"][:sessions]
        self._most = sessions

    def collect(self) -> Iterator[Metric]:
        status = self._status
        build = {"version": status["version"], "compiled": str(status["compiled"]).lower()}
        yield InfoMetricFamily(PREFIX + "build", "What runs.", value=build)
        yield from self._counters()
        for name, help, path, divisor in GAUGES:
            value = _at(status, path)
            if value is not None:
                yield GaugeMetricFamily(PREFIX + name, help, value=value / divisor)
        yield from self._sessions()
        yield from self._uplinks()
        yield from self._engine()
        yield from self._store()
        yield from self._disk()
        for name, help in (
            ("safe_mode", "1 after too many crashes: uplinks are held."),
            ("read_only", "1 while the disk could not be written since the start."),
        ):
            yield GaugeMetricFamily(PREFIX + name, help, value=bool(status[name]))
        yield from self._sparkplug()

    def _counters(self) -> Iterator[Metric]:
        now, before = self._status["counters"], self._report["before"]["counters"]
        for name, help, label, sources in COUNTERS:
            family = CounterMetricFamily(PREFIX + name, help, labels=[label] if label else [])
            for value, source in sources.items():
                family.add_metric([value] if label else [], now[source] - before.get(source, 0))
            yield family
        drops, dropped_before = self._status["drops"], self._report["before"]["drops"]
        family = CounterMetricFamily(PREFIX + "messages_dropped", "Messages dropped.", labels=["reason"])
        for reason in sorted({*REASONS, *drops}):
            family.add_metric([reason], drops.get(reason, 0) - dropped_before.get(reason, 0))
        yield family

    def _sessions(self) -> Iterator[Metric]:
        sessions, rows = self._status["sessions"], self._rows
        family = GaugeMetricFamily(PREFIX + "sessions", "Sessions, of clients that are there or not.", labels=["state"])
        family.add_metric(["connected"], sessions["connected"])
        family.add_metric(["away"], sessions["total"] - sessions["connected"])
        yield family
        yield GaugeMetricFamily(
            PREFIX + "sessions_persistent", "Sessions that outlive their connection.", value=sessions["persistent"]
        )
        for name, help, key, divisor in SESSION_GAUGES:
            family = GaugeMetricFamily(PREFIX + name, help, labels=["client_id"])
            for row in rows:
                if row.get(key) is not None:
                    family.add_metric([row["client_id"]], row[key] / divisor)
            yield family
        dropped = CounterMetricFamily(
            PREFIX + "session_dropped",
            "Messages of this session dropped, over its life.",
            labels=["client_id", "reason"],
        )
        for row in rows:
            for reason, count in sorted(row["drops"].items()):
                dropped.add_metric([row["client_id"], reason], count)
        yield dropped

    def _uplinks(self) -> Iterator[Metric]:
        rows = self._status["uplinks"]
        up = GaugeMetricFamily(PREFIX + "uplink_up", "1 while the uplink is connected and forwards.", labels=["uplink"])
        for row in rows:
            up.add_metric([row["name"]], row["state"] in UPLINK_UP)
        yield up
        for name, help, key, divisor in UPLINK_GAUGES:
            family = GaugeMetricFamily(PREFIX + name, help, labels=["uplink"])
            for row in rows:
                if row.get(key) is not None:
                    family.add_metric([row["name"]], row[key] / divisor)
            yield family
        dropped = CounterMetricFamily(
            PREFIX + "uplink_dropped", "Messages for this uplink dropped, over its life.", labels=["uplink", "reason"]
        )
        for row in rows:
            for reason, count in sorted(row.get("drops", {}).items()):
                dropped.add_metric([row["name"], reason], count)
        yield dropped

    def _engine(self) -> Iterator[Metric]:
        """Of an engine that keeps the log of the applications in place of the store."""
        row = self._status["engine"]
        if "state" not in row:
            return
        up = GaugeMetricFamily(PREFIX + "engine_up", "1 while the engine takes messages.", labels=["engine"])
        up.add_metric([row["name"]], row["state"] == "up")
        yield up
        for name, help, key in ENGINE_GAUGES:
            value = {**row, **row["log"]}.get(key)
            if value is not None:
                yield GaugeMetricFamily(PREFIX + name, help, value=value)
        lag = GaugeMetricFamily(
            PREFIX + "engine_application_lag_messages", "Messages that it has not settled yet.", labels=["client_id"]
        )
        for one in row["applications"][: self._most]:
            if one["lag"] is not None:
                lag.add_metric([one["client_id"]], one["lag"])
        yield lag

    def _store(self) -> Iterator[Metric]:
        store, times = self._status["store"], self._report["commit_ms"]
        yield GaugeMetricFamily(PREFIX + "store_up", "0 while the disk takes nothing.", value=not store["error"])
        for name, help, key in (
            ("store_commits", "Commits to disk.", "commits"),
            ("store_failed_commits", "Commits that failed, and were tried again.", "failed_commits"),
            ("store_written_bytes", "Written to the disk by the store: what wears flash.", "bytes_written"),
            ("store_damaged_segments", "Segments that could not be read.", "damaged"),
        ):
            yield CounterMetricFamily(PREFIX + name, help, value=store[key])
        below, buckets = 0, []
        for bound, count in zip([*times["bounds"], None], times["counts"], strict=True):
            below += count
            buckets.append(("+Inf" if bound is None else str(bound / 1000), below))
        yield HistogramMetricFamily(
            PREFIX + "store_commit_duration_seconds", "Time of a commit, the flush to the disk included.",
            buckets=buckets, sum_value=times["sum"] / 1000,
        )  # fmt: skip

    def _disk(self) -> Iterator[Metric]:
        status, wear = self._status, self._status["wear"]
        machine = {"board": status["board"], "disk": wear["disk"] or "", "storage": wear["storage"] or ""}
        yield InfoMetricFamily(PREFIX + "machine", "What it runs on.", value=machine)
        # over all runs: what was written to a disk is written
        yield CounterMetricFamily(
            PREFIX + "disk_written_bytes", "Written to the disk that holds the data, by all.", value=wear["total_bytes"]
        )
        for name, help, key in WEAR_GAUGES:
            if wear[key] is not None:
                yield GaugeMetricFamily(PREFIX + name, help, value=wear[key])

    def _sparkplug(self) -> Iterator[Metric]:
        totals, before = self._report["sparkplug"], self._report["before"]["sparkplug"]
        nodes = GaugeMetricFamily(PREFIX + "sparkplug_nodes", "Sparkplug edge nodes.", labels=["state"])
        nodes.add_metric(["online"], totals["online"])
        nodes.add_metric(["away"], totals["nodes"] - totals["online"])
        yield nodes
        for name, help, key in (
            ("sparkplug_sequence_gaps", "Gaps in the sequence of a node that stayed open.", "seq_gaps"),
            ("sparkplug_rebirths_asked", "Rebirths asked for.", "rebirths_asked"),
            ("sparkplug_rebirths_answered", "Rebirths that came.", "rebirths_answered"),
        ):
            yield CounterMetricFamily(PREFIX + name, help, value=totals[key] - before[key])


def encode(report: Report, accept: str, sessions: int) -> tuple[bytes, str]:
    """The text and its content type, in the format that ``accept`` (a header) asks for.

    At most ``sessions`` have gauges of their own. Both processes are measured, the broker's and this one.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Exposition(report, sessions))
    ProcessCollector(namespace=PREFIX.rstrip("_"), pid=lambda: report["pid"], registry=registry)
    ProcessCollector(namespace=PREFIX + "web", pid=os.getpid, registry=registry)
    encoder, content_type = choose_encoder(accept)
    return encoder(registry), content_type


def _at(status: Report, path: str) -> float | None:
    value: Any = status
    for key in path.split("."):
        value = value[key]
    return None if value is None else float(value)

"""The consumer's numbers for Prometheus: read when they are asked for, so that they cost a delivery nothing."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, final

from gateway.consumer.stats import HandlerStats, Stats

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

_COUNTERS: Final = {
    "received": ("deliveries", "Deliveries, copies and repetitions too."),
    "decode_errors": ("decode_errors", "Payloads that did not decode."),
    "handler_errors": ("handler_errors", "Exceptions that a handler did not catch."),
    "unsupported": ("ack_errors", "Outcomes that MQTT cannot carry out."),
    "copies_refused": ("copies_refused", "Copies that the broker did not take."),
    "overflowed": ("overflowed", "Deliveries of QoS 0 let go since the handler is too slow."),
}
_SETTLED: Final = ("acked", "dropped", "retried", "delayed", "dead_lettered", "given_up", "left", "expired")
_GAUGES: Final = {
    "connected": "1 while a connection is open.",
    "receive_maximum": "Deliveries of QoS 1 and 2 that may be unsettled at once.",
    "slots": "Of these, those that are taken.",
    "unsettled": "Of these, those taken for good: never acknowledged on this connection.",
    "waiting": "Deliveries that wait for their handler.",
    "running": "Deliveries and batches that handlers have in hand.",
    "copies": "Copies on their way to the broker.",
    "journal": "Copies that wait on our disk.",
}


@final
class StatsCollector:
    """What prometheus_client calls a collector."""

    def __init__(self, stats: Callable[[], Stats]) -> None:
        self._stats = stats

    def collect(self) -> "Iterable[Metric]":
        """All families, named ``forebay_consumer_...``."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        stats = self._stats()
        for name, help in _GAUGES.items():
            yield GaugeMetricFamily(f"forebay_consumer_{name}", help, float(getattr(stats, name)))
        yield CounterMetricFamily("forebay_consumer_connections", "Connections since the start.", stats.connections)
        yield CounterMetricFamily("forebay_consumer_unrouted", "Deliveries that no handler reads.", stats.unrouted)
        for name, (shown, help) in _COUNTERS.items():
            family = CounterMetricFamily(f"forebay_consumer_{shown}", help, labels=["handler"])
            for handler, numbers in stats.handlers.items():
                family.add_metric([handler], float(getattr(numbers, name)))
            yield family
        yield self._settled(stats.handlers)
        seconds = CounterMetricFamily("forebay_consumer_handler_seconds", "Time spent in handlers.", labels=["handler"])
        for handler, numbers in stats.handlers.items():
            seconds.add_metric([handler], numbers.handler_s)
        yield seconds

    def _settled(self, handlers: dict[str, HandlerStats]) -> "Metric":
        from prometheus_client.core import CounterMetricFamily

        family = CounterMetricFamily(
            "forebay_consumer_settled", "Deliveries by what became of them.", labels=["handler", "outcome"]
        )
        for handler, numbers in handlers.items():
            for outcome in _SETTLED:
                family.add_metric([handler, outcome], float(getattr(numbers, outcome)))
        return family


def register(stats: Callable[[], Stats], registry: "CollectorRegistry | None" = None) -> None:
    """Show them in a registry; without one, in the default one of prometheus_client. Needs that package."""
    from prometheus_client import REGISTRY

    (REGISTRY if registry is None else registry).register(StatsCollector(stats))

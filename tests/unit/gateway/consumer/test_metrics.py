"""The consumer's numbers for Prometheus."""

import prometheus_client
from prometheus_client.parser import text_string_to_metric_families

from gateway.consumer.metrics import register
from gateway.consumer.stats import HandlerStats, Stats


def test_every_number_is_there() -> None:
    numbers = HandlerStats(handler_s=1.5)
    counts = vars(numbers).keys() - {"handler_s"}
    for number, name in enumerate(sorted(counts), 1):
        setattr(numbers, name, number)
    stats = Stats(True, 2, 200, 50, 3, 4, 5, 6, 7, 8, {"archive": numbers})
    registry = prometheus_client.CollectorRegistry()
    register(lambda: stats, registry)
    text = prometheus_client.generate_latest(registry).decode()
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found["forebay_consumer_connected",] == 1
    assert found["forebay_consumer_connections_total",] == 2
    assert found["forebay_consumer_slots",] == 50
    assert found["forebay_consumer_unsettled",] == 3
    assert found["forebay_consumer_journal",] == 7
    assert found["forebay_consumer_deliveries_total", "archive"] == numbers.received
    assert found["forebay_consumer_settled_total", "archive", "acked"] == numbers.acked
    assert found["forebay_consumer_settled_total", "archive", "dead_lettered"] == numbers.dead_lettered
    assert found["forebay_consumer_handler_seconds_total", "archive"] == 1.5
    assert len([key for key in found if key[0] == "forebay_consumer_settled_total"]) == 8
    for name in counts:
        assert getattr(numbers, name) in found.values(), name


def test_numbers_are_read_when_they_are_asked_for() -> None:
    asked: list[int] = []

    def stats() -> Stats:
        asked.append(1)
        return Stats(False, len(asked), 200, 0, 0, 0, 0, 0, 0, 0)

    registry = prometheus_client.CollectorRegistry()
    register(stats, registry)
    before = len(asked)
    prometheus_client.generate_latest(registry)
    assert len(asked) == before + 1

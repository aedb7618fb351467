import pytest

from sparkplug.check.content import read
from sparkplug.model import Metric
from tests.sparkplug_judged import changed, delivered, failed, published, session, written
from tests.sparkplug_rig import T0, Message, data, dbirth, metric, nbirth, topic

DATA = "timestamp: 1700000000000 seq: 2 "
AT = "timestamp: 1700000000000"


def after_births(*messages: Message) -> set[str]:
    return failed(session(*(published(message) for message in messages)))


def with_birth(text: str) -> set[str]:
    """An NBIRTH with one more metric, written in protobuf's text format."""
    seen = session()
    seen[2] = published(changed(nbirth(), f"metrics {{ {text} }}"))
    return failed(seen)


def test_a_session_as_it_should_be_fails_nothing() -> None:
    assert after_births(data(T0, 2, 5), data(T0, 3, 6, device="d", alias=2)) == set()
    assert with_birth(f'name: "x" {AT} datatype: 3 int_value: 1') == set()


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        (f'name: "x" {AT} int_value: 1', {"topics-nbirth-metrics", "payloads-metric-datatype-req"}),
        (f"alias: 9 {AT} datatype: 3 int_value: 1", {"payloads-alias-birth-requirement", "payloads-name-requirement"}),
        (f'name: "x" {AT} datatype: 3', {"operational-behavior-data-publish-nbirth-values", "topics-nbirth-metrics"}),
        (
            f'name: "x" {AT} datatype: 3 int_value: 1 is_null: true',
            {"operational-behavior-data-publish-nbirth-values"},
        ),
        (f'name: "x" {AT} datatype: 99 int_value: 1', {"payloads-metric-datatype-value"}),
        (f'name: "x" {AT} datatype: 3 string_value: "1"', {"payloads-metric-datatype-value"}),
        (f'name: "x" alias: 1 {AT} datatype: 3 int_value: 1', {"payloads-alias-uniqueness"}),
        (f'name: "SPEED" {AT} datatype: 3 int_value: 1', {"case-sensitivity-metric-names"}),
        ('name: "x" datatype: 3 int_value: 1', {"payloads-name-birth-data-requirement"}),
        ('name: "x" timestamp: 1700000000 datatype: 3 int_value: 1', {"payloads-metric-timestamp-in-UTC"}),
        ('name: "x" timestamp: 1700007200000 datatype: 3 int_value: 1', {"payloads-metric-timestamp-in-UTC"}),
    ],
)
def test_metrics_of_births(text: str, ids: set[str]) -> None:
    assert ids <= with_birth(text)


def test_an_alias_of_the_node_is_not_for_its_device() -> None:
    seen = session()
    seen[3] = published(dbirth(T0, 1, metrics=[metric("temp", 1)]))
    assert failed(seen) == {"payloads-alias-uniqueness"}


@pytest.mark.parametrize(
    ("message", "ids"),
    [
        (
            data(T0, 2, 5, alias=9),
            {"topics-nbirth-metric-reqs", "operational-behavior-data-publish-nbirth"},
        ),
        (
            data(T0, 2, 5, alias=9, device="d"),
            {"topics-dbirth-metric-reqs", "operational-behavior-data-publish-dbirth"},
        ),
        (written("NDATA", DATA), {"topics-ndata-payload"}),
        (
            written("NDATA", f'{DATA} metrics {{ name: "speed" alias: 1 {AT} int_value: 5 }}'),
            {"payloads-alias-data-cmd-requirement"},
        ),
        (written("NDATA", f"{DATA} metrics {{ {AT} int_value: 5 }}"), {"payloads-name-requirement"}),
        (
            written("NDATA", f"{DATA} metrics {{ alias: 1 {AT} datatype: 3 int_value: 5 }}"),
            {"payloads-metric-datatype-not-req"},
        ),
        (written("NDATA", f"{DATA} metrics {{ alias: 1 int_value: 5 }}"), {"payloads-name-birth-data-requirement"}),
        (data(T0, 2, 10), {"principles-rbe-recommended", "operational-behavior-data-publish-nbirth-change"}),
        (data(T0, 2, 20, device="d", alias=2), {"operational-behavior-data-publish-dbirth-change"}),
        (data(T0 - 1, 2, 11), {"operational-behavior-data-publish-nbirth-order"}),
        (data(T0 - 1, 2, 21, device="d", alias=2), {"operational-behavior-data-publish-dbirth-order"}),
    ],
)
def test_metrics_of_data(message: Message, ids: set[str]) -> None:
    assert ids <= after_births(message)


def test_historical_values_are_exempt_from_the_order() -> None:
    assert after_births(data(T0 - 1, 2, 11, historical=True)) <= {"payloads-timestamp-in-UTC"}


@pytest.mark.parametrize("type", ["NBIRTH", "NDATA", "DDATA", "DBIRTH", "DDEATH", "NCMD", "DCMD"])
def test_the_time_of_sending(type: str) -> None:
    device = "d" if type.startswith("D") else None
    assert f"payloads-{type.lower()}-timestamp" in after_births((topic(type, device), b""))
    late = written(type, "timestamp: 1699990000000", device)
    assert "payloads-timestamp-in-UTC" in after_births(late)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ('name: "Node Control/Rebirth" boolean_value: false', {"ncmd-rebirth-value"}),
        ('name: "other" int_value: 1', {"ncmd-metric-name"}),
        ('alias: 1 string_value: "x"', {"ncmd-metric-value"}),
    ],
)
def test_commands(text: str, ids: set[str]) -> None:
    found = after_births(written("NCMD", f"timestamp: 1700000000000 metrics {{ {text} }}"))
    assert {f"operational-behavior-data-commands-{id}" for id in ids} <= found


def test_a_rebirth_asked_of_a_device_is_none() -> None:
    text = 'timestamp: 1700000000000 metrics { name: "Node Control/Rebirth" boolean_value: true }'
    ids = after_births(written("DCMD", text, "d"))
    assert "operational-behavior-data-commands-ncmd-rebirth-verb" in ids


def test_commands_with_a_seq_or_without_metrics() -> None:
    found = after_births(written("NCMD", "timestamp: 1700000000000 seq: 1"), written("DCMD", "seq: 1", "d"))
    assert {"payloads-ncmd-seq", "payloads-dcmd-seq", "topics-ncmd-payload", "topics-dcmd-payload"} <= found


def test_bytes_that_are_no_payload() -> None:
    assert read(b"\xff") is None
    assert "topics-ncmd-payload" in after_births((topic("NCMD"), b"\xff"))
    assert after_births((topic("NDATA"), b"\xff")) == set()
    seen = session(delivered((topic("NCMD"), b"\xff")))
    assert failed(seen) == set()


def test_names_that_are_no_text_do_not_stop_the_checker() -> None:
    broken = nbirth(metrics=[Metric("x", None, T0, 3, 1)])
    message = broken[0], broken[1].replace(b"\x0a\x01x", b"\x0a\x01\xff")
    assert message != broken
    failed([published(message)])

import pytest

from sparkplug.actions import Publish
from sparkplug.check.topics import check_outside, check_topic, is_ours
from sparkplug.check.verdicts import Outcome, Verdicts
from sparkplug.topic import MessageType


def failed(verdicts: Verdicts) -> set[str]:
    return {one.id.removeprefix("tck-id-") for one in verdicts.findings() if one.outcome is Outcome.FAIL}


@pytest.mark.parametrize(
    ("topic", "ids"),
    [
        ("spAv1.0/g/NDATA/e", set()),  # not ours
        ("spbv1.0/g/NDATA/e", {"topic-structure-namespace-a"}),
        ("spBv1.0/g/XDATA/e", {"topic-structure"}),
        ("spBv1.0/g", {"topic-structure"}),
        (
            "spBv1.0/g/NDATA/e/d",
            {
                "topic-structure",
                "topic-structure-namespace-device-id-non-associated-message-types",
                "topics-ndata-topic",
            },
        ),
        (
            "spBv1.0/g/DBIRTH/e",
            {
                "topic-structure",
                "topic-structure-namespace-device-id-associated-message-types",
                "topics-dbirth-topic",
                "message-flow-device-birth-publish-dbirth-topic",
            },
        ),
        (
            "spBv1.0/g/STATE/e",
            {"topic-structure", "topic-structure-namespace-device-id-non-associated-message-types"},
        ),
        (
            "spBv1.0/g+/DDATA/e#/d\0",
            {
                f"{start}-{what}-id{end}"
                for what in ("group", "edge-node", "device")
                for start, end in (("intro", "-string"), ("intro", "-chars"), ("topic-structure-namespace-valid", ""))
            },
        ),
        ("spBv1.0/g/NDATA/e", set()),
        ("spBv1.0/STATE/h", set()),
        ("STATE/h", set()),
    ],
)
def test_topics(topic: str, ids: set[str]) -> None:
    verdicts = Verdicts()
    if is_ours(topic):
        check_topic(verdicts, topic)
    assert failed(verdicts) == ids


@pytest.mark.parametrize("type", [type for type in MessageType if type is not MessageType.NDEATH])
def test_qos_and_retain(type: MessageType) -> None:
    good, bad_qos, bad_retain = Verdicts(), Verdicts(), Verdicts()
    check_outside(good, type, Publish("t", b"", 0, False))
    check_outside(bad_qos, type, Publish("t", b"", 1, False))
    check_outside(bad_retain, type, Publish("t", b"", 0, True))
    assert failed(good) == set()
    kind = type.lower()
    assert f"topics-{kind}-mqtt" in failed(bad_qos) & failed(bad_retain)
    if type is not MessageType.DDEATH:
        assert f"payloads-{kind}-qos" in failed(bad_qos) - failed(bad_retain)
        assert f"payloads-{kind}-retain" in failed(bad_retain) - failed(bad_qos)

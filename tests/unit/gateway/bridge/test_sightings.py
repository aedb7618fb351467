"""Events of the control socket become sightings; births say what aliases mean."""

import base64
from typing import Any

from gateway.bridge.sightings import Closed, Connected, Eyes, Message, Refused
from sparkplug.datatypes import DataType
from sparkplug.model import Metric, Payload
from sparkplug.payload import encode


def published(topic: str, payload: Payload | bytes, **fields: Any) -> dict[str, Any]:
    data = payload if isinstance(payload, bytes) else encode(payload, with_datatypes="BIRTH" in topic)
    return {
        "kind": "published", "at": 5, "connection": 2, "topic": topic, "qos": 1, "dup": False,
        "payload": base64.b64encode(data).decode(), **fields,
    }  # fmt: skip


def metric(name: str | None, value: Any, datatype: int = DataType.Int64, **fields: Any) -> Metric:
    return Metric(name, datatype=datatype, value=value, **fields)


BIRTH = Payload(
    1000,
    [
        metric("bdSeq", 7),
        metric("Properties/Hardware Make", "Acme", DataType.String),
        metric("Counter", 1, alias=3),
        metric("Running", True, DataType.Boolean),
    ],
    0,
)


def read(eyes: Eyes, event: dict[str, Any]) -> Message:
    sighting = eyes.see(event)
    assert isinstance(sighting, Message)
    return sighting


def test_a_connection_with_its_will() -> None:
    will = encode(Payload(1, [metric("bdSeq", 7)]))
    event = {
        "kind": "connected", "at": 3, "connection": 2, "client_id": "press", "version": 5, "clean": False,
        "keep_alive_s": 30, "will_qos": 1, "will": base64.b64encode(will).decode(),
    }  # fmt: skip
    assert Eyes().see(event) == Connected(3, 2, "press", 5, False, 30, 1, 7)
    for nothing in (None, base64.b64encode(b"\xff\xff").decode()):
        sighting = Eyes().see({**event, "will": nothing})
        assert isinstance(sighting, Connected) and sighting.will_bdseq is None
    assert Eyes().see({"kind": "closed", "at": 4}) == Closed(4)
    assert Eyes().see({"kind": "refused", "at": 4}) == Refused(4)


def test_a_birth_and_data_by_alias() -> None:
    eyes = Eyes()
    birth = read(eyes, published("spBv1.0/g/NBIRTH/e", BIRTH, qos=0))
    assert (birth.type, birth.device, birth.seq, birth.bdseq, birth.bdseq_type) == ("NBIRTH", "", 0, 7, DataType.Int64)
    assert birth.integers == {"Counter": (1,)}, "a boolean does not count, and bdSeq is none of the data"
    assert eyes.properties == {"Properties/Hardware Make": "Acme"}
    data = read(eyes, published("spBv1.0/g/NDATA/e", Payload(2000, [metric(None, 2, alias=3, timestamp=1500)], 1)))
    assert (data.integers, data.seq, data.made_at, data.historical) == ({"Counter": (2,)}, 1, 1500, False)
    assert eyes.aliases


def test_the_metrics_of_devices_are_told_apart() -> None:
    eyes = Eyes()
    for device, alias in (("a", 1), ("b", 2)):
        read(eyes, published(f"spBv1.0/g/DBIRTH/e/{device}", Payload(1, [metric("n", 0, alias=alias)], 1)))
    found = read(eyes, published("spBv1.0/g/DDATA/e/b", Payload(1, [metric(None, 5, alias=2)], 2)))
    assert (found.type, found.device, found.integers) == ("DDATA", "b", {"b/n": (5,)})


def test_a_metric_may_come_several_times_in_a_message() -> None:
    history = [metric("n", value, timestamp=value, is_historical=True) for value in (4, 5, 6)]
    found = read(Eyes(), published("spBv1.0/g/NDATA/e", Payload(9, history, 1)))
    assert (found.integers, found.historical, found.made_at) == ({"n": (4, 5, 6)}, True, 4)


def test_an_alias_that_no_birth_told_has_no_name() -> None:
    assert read(Eyes(), published("spBv1.0/g/NDATA/e", Payload(1, [metric(None, 5, alias=2)], 2))).integers == {}


def test_history_is_marked_by_any_metric_of_it() -> None:
    payload = Payload(9, [metric("a", 1, timestamp=7), metric("b", 2, timestamp=5, is_historical=True)], 1)
    found = read(Eyes(), published("spBv1.0/g/NDATA/e", payload))
    assert (found.historical, found.made_at) == (True, 5)


def test_a_repetition_has_the_same_digest_whatever_its_flags() -> None:
    eyes = Eyes()
    payload = Payload(1, [metric("n", 1)], 1)
    first = read(eyes, published("spBv1.0/g/NDATA/e", payload))
    again = read(eyes, published("spBv1.0/g/NDATA/e", payload, dup=True, connection=3, at=9, qos=2))
    other = read(eyes, published("spBv1.0/g/NDATA/f", payload))
    assert first.digest == again.digest != other.digest


def test_what_is_no_sparkplug_message_is_passed_over() -> None:
    eyes = Eyes()
    for topic in ("other/topic", "spBv1.0/g/NDATA", "spBv1.0/g/NDATA/e/d/x", "spBv1.0/STATE/host"):
        assert eyes.see(published(topic, Payload(1))) is None
    assert eyes.see(published("spBv1.0/g/NDATA/e", b"\xff\xff")) is None

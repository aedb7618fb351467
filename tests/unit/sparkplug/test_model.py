"""The error's places, and what counts when objects are compared."""

from sparkplug.model import Metric, Payload, PayloadError


def test_an_error_names_its_place_from_outside_to_inside() -> None:
    error = PayloadError("bad").within("property 'p'").within("metric 'm'")
    assert (str(error), error.reason, error.where) == (
        "metric 'm', property 'p': bad",
        "bad",
        "metric 'm', property 'p'",
    )
    assert isinstance(error, ValueError)
    assert (str(PayloadError("bad")), PayloadError("bad").where) == ("bad", "")


def test_the_form_on_the_wire_does_not_count() -> None:
    assert Metric("m", value=1, wire=10, unknown=b"x") == Metric("m", value=1)
    assert Metric("m", value=1) != Metric("m", value=2)


def test_payloads_share_no_list() -> None:
    assert Payload().metrics is not Payload().metrics

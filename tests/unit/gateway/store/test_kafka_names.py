"""Names as TBMQ makes them, so that who knows its topics and groups finds them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.store.kafka_names import group_of, topic_of

# sha256sum of the client id
DIGESTS = {
    "line-1/app": "f9e1e8753fdaf5da26f003b84b45e889c80c7ce467b969b3ac122751ae2c705c",
    "Anlage_ü": "81794fc9da570303144f58aaa536fcfc7286a38ebc0de05cc284f41c73454d0f",
}


def test_letters_and_digits_stay_as_they_are() -> None:
    assert topic_of("Historian7") == "tbmq.msg.app.Historian7"
    assert group_of("Historian7") == "application-persisted-msg-consumer-group-Historian7"


@pytest.mark.parametrize("client_id", DIGESTS)
def test_any_other_client_id_is_hashed_in_the_topic_but_not_in_the_group(client_id: str) -> None:
    assert topic_of(client_id) == f"tbmq.msg.app.{DIGESTS[client_id]}"
    assert group_of(client_id) == f"application-persisted-msg-consumer-group-{client_id}"


@pytest.mark.parametrize("client_id", ["a\n", "\na", "", "ä", "a b", "a.b", "a_b", "١"])
def test_only_ascii_letters_and_digits_count(client_id: str) -> None:
    assert re.fullmatch(r"tbmq\.msg\.app\.[0-9a-f]{64}", topic_of(client_id))


def test_a_prefix_stands_before_both() -> None:
    assert topic_of("app", "plant1.") == "plant1.tbmq.msg.app.app"
    assert group_of("app", "plant1.") == "plant1.application-persisted-msg-consumer-group-app"


def test_a_client_id_that_is_too_long_for_a_topic_is_hashed_too() -> None:
    assert len(topic_of("a" * 236)) == 249
    assert topic_of("a" * 236).endswith("aaa")
    assert re.fullmatch(r"tbmq\.msg\.app\.[0-9a-f]{64}", topic_of("a" * 237))


@given(st.text(max_size=300), st.text(alphabet="aZ0._-", max_size=172))
def test_every_name_is_one_that_kafka_takes(client_id: str, prefix: str) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", topic_of(client_id, prefix))


@given(st.text(max_size=300), st.text(max_size=300))
def test_two_clients_never_share_a_topic_or_a_group(one: str, other: str) -> None:
    if one != other:
        assert topic_of(one) != topic_of(other)
        assert group_of(one) != group_of(other)

"""Reason codes and what a CONNACK says."""

import pytest

from gateway.link.terms import (
    ENDED_FOR_GOOD,
    PERMANENT,
    Peer,
    RefusedError,
    Subscription,
    named,
    peer_of,
    reason_of,
    unwanted,
)
from gateway.mqtt.packets import Connack, Properties


def test_a_connack_that_says_nothing() -> None:
    assert peer_of(Connack(False, 0, Properties()), 5) == Peer()
    assert peer_of(Connack(False, 0), 4) == Peer(20, identifiers=False)


def test_a_connack_that_says_everything() -> None:
    said = Properties()
    said.receive_maximum, said.maximum_qos, said.maximum_packet_size = 1, 0, 100
    said.retain_available = said.wildcard_subscription_available = 0
    said.subscription_identifier_available = said.shared_subscription_available = 0
    said.session_expiry_interval, said.assigned_client_identifier = 7, "you"
    assert peer_of(Connack(True, 0, said), 5) == Peer(1, 0, 100, False, False, False, False, 7, "you")


@pytest.mark.parametrize(("old", "new"), [(0, 0), (1, 0x84), (2, 0x85), (3, 0x88), (4, 0x86), (5, 0x87)])
def test_return_codes_of_3_1_1(old: int, new: int) -> None:
    assert reason_of(Connack(False, old), 4) == new


@pytest.mark.parametrize("code", [0x84, 0x85, 0x86, 0x87, 0x8A, 0x8E, 0x9C])
def test_refusals_that_last(code: int) -> None:
    assert code in PERMANENT and RefusedError("", code).permanent


@pytest.mark.parametrize("code", [0x80, 0x83, 0x88, 0x89, 0x8B, 0x8D, 0x97, 0x98, 0x9F])
def test_refusals_for_a_time(code: int) -> None:
    assert code not in PERMANENT and not RefusedError("", code).permanent


def test_a_garbled_packet_is_no_end_for_good() -> None:
    assert 0x81 in PERMANENT and 0x81 not in ENDED_FOR_GOOD and 0x8E in ENDED_FOR_GOOD


def test_codes_for_people() -> None:
    assert named(0x87) == "not authorized, reason code 0x87"
    assert named(0xF0) == "reason code 0xf0"


@pytest.mark.parametrize(
    ("subscription", "peer", "code"),
    [
        (Subscription("a/#"), Peer(), 0),
        (Subscription("a/b", identifier=3), Peer(identifiers=False), 0xA1),
        (Subscription("a/+"), Peer(wildcards=False), 0xA2),
        (Subscription("a/b"), Peer(wildcards=False), 0),
        (Subscription("$share/g/a"), Peer(shared=False), 0x9E),
        (Subscription("$share/g/a/#"), Peer(wildcards=False), 0xA2),
    ],
)
def test_subscriptions_that_a_broker_does_not_have(subscription: Subscription, peer: Peer, code: int) -> None:
    assert unwanted(subscription, peer) == code

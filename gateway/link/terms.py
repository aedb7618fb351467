"""What a client and its user say to each other beside messages: a will, subscriptions, the peer's limits, failures."""

from typing import Final, NamedTuple

from gateway.mqtt import reasons
from gateway.mqtt.packets import V5, Connack

# Trying again cannot help: who we are, what we sent, or where we sent it must change first.
PERMANENT: Final = frozenset(
    {
        reasons.MALFORMED_PACKET,
        reasons.PROTOCOL_ERROR,
        reasons.UNSUPPORTED_PROTOCOL_VERSION,
        reasons.CLIENT_IDENTIFIER_NOT_VALID,
        reasons.BAD_USER_NAME_OR_PASSWORD,
        reasons.NOT_AUTHORIZED,
        reasons.BANNED,
        reasons.BAD_AUTHENTICATION_METHOD,
        reasons.SESSION_TAKEN_OVER,
        reasons.TOPIC_NAME_INVALID,
        reasons.PACKET_TOO_LARGE,
        reasons.PAYLOAD_FORMAT_INVALID,
        reasons.RETAIN_NOT_SUPPORTED,
        reasons.QOS_NOT_SUPPORTED,
        reasons.USE_ANOTHER_SERVER,
        reasons.SERVER_MOVED,
    }
)
# The same for a connection that was open; what was only garbled once may be whole the next time, and what one message
# did is found and set aside.
ENDED_FOR_GOOD: Final = PERMANENT - {
    reasons.MALFORMED_PACKET,
    reasons.PROTOCOL_ERROR,
    reasons.TOPIC_NAME_INVALID,
    reasons.PACKET_TOO_LARGE,
    reasons.PAYLOAD_FORMAT_INVALID,
    reasons.RETAIN_NOT_SUPPORTED,
    reasons.QOS_NOT_SUPPORTED,
}
_IN_FLIGHT_OLD: Final = 20  # mosquitto forgets what is more, at QoS 2 and without a word
# The return codes of 3.1.1 as reason codes [MQTT-3.2.2.3 of 3.1.1].
_RETURN_CODES: Final = (
    reasons.SUCCESS,
    reasons.UNSUPPORTED_PROTOCOL_VERSION,
    reasons.CLIENT_IDENTIFIER_NOT_VALID,
    reasons.SERVER_UNAVAILABLE,
    reasons.BAD_USER_NAME_OR_PASSWORD,
    reasons.NOT_AUTHORIZED,
)


class LostError(Exception):
    """The broker cannot be reached or the connection broke; trying again may help."""


class RefusedError(Exception):
    """The broker said no, or would have to. ``code`` is the reason code of MQTT 5.0."""

    def __init__(self, text: str, code: int = reasons.UNSPECIFIED_ERROR) -> None:
        super().__init__(text)
        self.code = code

    @property
    def permanent(self) -> bool:
        """Trying again does not help."""
        return self.code in PERMANENT


class Will(NamedTuple):
    """What the broker publishes when the connection breaks."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False


class Subscription(NamedTuple):
    """One filter of a SUBSCRIBE. All but ``filter`` and ``qos`` is for MQTT 5.0 and left out on 3.1.1."""

    filter: str
    qos: int = 1
    identifier: int = 0  # comes back with each delivery of this subscription; 0 = none
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0  # retained messages: 0 with each SUBSCRIBE, 1 with a new subscription only, 2 never


class Peer(NamedTuple):
    """What the broker of this connection takes, as its CONNACK says [MQTT-3.2.2.3]."""

    receive_maximum: int = 65535
    maximum_qos: int = 2
    maximum_packet_bytes: int = 0  # 0 = no limit
    retain: bool = True
    wildcards: bool = True
    identifiers: bool = True
    shared: bool = True
    session_expiry_s: int = -1  # -1 = what was asked for
    client_id: str = ""  # that the broker made up
    user_properties: tuple[tuple[str, str], ...] = ()


def peer_of(connack: Connack, version: int) -> Peer:
    """What a CONNACK says; that of 3.1.1 says nothing, so what every broker takes is assumed."""
    said = connack.properties
    if version != V5:
        return Peer(_IN_FLIGHT_OLD, identifiers=False)
    if said is None:
        return Peer()
    return Peer(
        said.receive_maximum if said.receive_maximum > 0 else 65535,
        said.maximum_qos if said.maximum_qos >= 0 else 2,
        max(0, said.maximum_packet_size),
        said.retain_available != 0,
        said.wildcard_subscription_available != 0,
        said.subscription_identifier_available != 0,
        said.shared_subscription_available != 0,
        said.session_expiry_interval,
        said.assigned_client_identifier or "",
        tuple(said.user_properties),
    )


def reason_of(connack: Connack, version: int) -> int:
    """The reason code of a CONNACK, that of 3.1.1 translated."""
    return connack.reason if version == V5 else _RETURN_CODES[connack.reason]


def named(code: int) -> str:
    """A reason code for people."""
    name = reasons.NAMES.get(code)
    return f"reason code 0x{code:02x}" if name is None else f"{name}, reason code 0x{code:02x}"


def unwanted(subscription: Subscription, peer: Peer) -> int:
    """The reason code with which this broker would refuse a subscription, 0 where it said nothing against it.

    A peer that said so may close the connection over it [MQTT-3.2.2.3.11-13].
    """
    if subscription.identifier and not peer.identifiers:
        return reasons.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED
    if subscription.filter.startswith("$share/"):
        if not peer.shared:
            return reasons.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED
    if not peer.wildcards and ("+" in subscription.filter or "#" in subscription.filter):
        return reasons.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED
    return reasons.SUCCESS

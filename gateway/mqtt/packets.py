"""Control packets of MQTT 3.1, 3.1.1 and 5.0 as plain objects.

The field names are those of the OASIS texts. An absent integer property is
``-1``, an absent string or binary property is ``None``.
"""

from typing import Final, final

from mypy_extensions import mypyc_attr

CONNECT: Final = 1
CONNACK: Final = 2
PUBLISH: Final = 3
PUBACK: Final = 4
PUBREC: Final = 5
PUBREL: Final = 6
PUBCOMP: Final = 7
SUBSCRIBE: Final = 8
SUBACK: Final = 9
UNSUBSCRIBE: Final = 10
UNSUBACK: Final = 11
PINGREQ: Final = 12
PINGRESP: Final = 13
DISCONNECT: Final = 14
AUTH: Final = 15

V31: Final = 3
V311: Final = 4
V5: Final = 5


@final
class Properties:
    """Every property of MQTT 5.0 [MQTT-2.2.2.2]; which packet may carry which is the codec's business."""

    def __init__(self) -> None:
        self.payload_format_indicator: int = -1
        self.message_expiry_interval: int = -1  # seconds
        self.content_type: str | None = None
        self.response_topic: str | None = None
        self.correlation_data: bytes | None = None
        self.subscription_identifiers: list[int] = []
        self.session_expiry_interval: int = -1  # seconds; 0xFFFFFFFF never ends
        self.assigned_client_identifier: str | None = None
        self.server_keep_alive: int = -1  # seconds
        self.authentication_method: str | None = None
        self.authentication_data: bytes | None = None
        self.request_problem_information: int = -1
        self.will_delay_interval: int = -1  # seconds
        self.request_response_information: int = -1
        self.response_information: str | None = None
        self.server_reference: str | None = None
        self.reason_string: str | None = None
        self.receive_maximum: int = -1
        self.topic_alias_maximum: int = -1
        self.topic_alias: int = -1
        self.maximum_qos: int = -1
        self.retain_available: int = -1
        self.user_properties: list[tuple[str, str]] = []  # order and repeats kept
        self.maximum_packet_size: int = -1  # bytes
        self.wildcard_subscription_available: int = -1
        self.subscription_identifier_available: int = -1
        self.shared_subscription_available: int = -1


@mypyc_attr(acyclic=True)
class Packet:
    """A control packet; ``type`` is the packet type of its fixed header."""

    type: int

    def __init__(self, type: int) -> None:
        self.type = type


@final
class Will:
    """The will of a CONNECT; ``props`` is encoded as in Publish.props."""

    def __init__(
        self,
        topic: bytes,
        payload: bytes,
        qos: int,
        retain: bool,
        props: bytes = b"",
        expiry: int = -1,
        delay: int = 0,
    ) -> None:
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.props = props
        self.expiry = expiry  # seconds, -1 absent
        self.delay = delay  # seconds


@final
class Connect(Packet):
    def __init__(
        self,
        version: int,
        client_id: str,
        clean_start: bool,
        keep_alive: int,
        username: str | None = None,
        password: bytes | None = None,
        will: Will | None = None,
        properties: Properties | None = None,
    ) -> None:
        super().__init__(CONNECT)
        self.version = version
        self.client_id = client_id
        self.clean_start = clean_start
        self.keep_alive = keep_alive  # seconds
        self.username = username
        self.password = password
        self.will = will
        self.properties = properties


@final
class Connack(Packet):
    def __init__(self, session_present: bool, reason: int, properties: Properties | None = None) -> None:
        super().__init__(CONNACK)
        self.session_present = session_present
        self.reason = reason
        self.properties = properties


@mypyc_attr(acyclic=True, free_list_len=1)
@final
class Publish(Packet):
    """A PUBLISH as received: the encoded frame and where its parts are.

    ``frame[body:]`` is the payload; with QoS > 0 the packet id stands at
    ``frame[id_at:id_at + 2]``. ``topic`` is b"" when only an alias was sent;
    it is NOT validated (see decode.check_topic_name): the router validates
    once for each topic and connection. ``props`` are the encoded properties
    that a server forwards unaltered (payload format, content type, response
    topic, correlation data, user properties, in their order), without their
    length; expiry, alias and subscription identifiers are taken out.
    """

    def __init__(
        self,
        frame: bytes,
        topic: bytes,
        body: int,
        id_at: int,
        packet_id: int,
        qos: int,
        retain: bool,
        dup: bool,
        props: bytes = b"",
        expiry: int = -1,
        alias: int = 0,
        subscription_identifiers: list[int] | None = None,
    ) -> None:
        super().__init__(PUBLISH)
        self.frame = frame
        self.topic = topic
        self.body = body
        self.id_at = id_at
        self.packet_id = packet_id
        self.qos = qos
        self.retain = retain
        self.dup = dup
        self.props = props
        self.expiry = expiry  # seconds, -1 absent
        self.alias = alias  # 0 absent
        self.subscription_identifiers = subscription_identifiers

    @property
    def payload(self) -> bytes:
        return self.frame[self.body :]

    @property
    def cut(self) -> bool:
        """It was larger than is taken: the frame ends where the payload would begin, ``body`` is how large it was."""
        return self.body > len(self.frame)


@mypyc_attr(acyclic=True, free_list_len=1)
@final
class Ack(Packet):
    """PUBACK, PUBREC, PUBREL or PUBCOMP (``type`` says which)."""

    def __init__(self, type: int, packet_id: int, reason: int = 0, properties: Properties | None = None) -> None:
        super().__init__(type)
        self.packet_id = packet_id
        self.reason = reason
        self.properties = properties


@final
class Filter:
    """One topic filter of a SUBSCRIBE with its subscription options."""

    def __init__(
        self,
        filter: str,
        qos: int,
        no_local: bool = False,
        retain_as_published: bool = False,
        retain_handling: int = 0,
    ) -> None:
        self.filter = filter
        self.qos = qos
        self.no_local = no_local
        self.retain_as_published = retain_as_published
        self.retain_handling = retain_handling


@final
class Subscribe(Packet):
    def __init__(self, packet_id: int, filters: list[Filter], properties: Properties | None = None) -> None:
        super().__init__(SUBSCRIBE)
        self.packet_id = packet_id
        self.filters = filters
        self.properties = properties


@final
class Suback(Packet):
    def __init__(self, packet_id: int, reasons: list[int], properties: Properties | None = None) -> None:
        super().__init__(SUBACK)
        self.packet_id = packet_id
        self.reasons = reasons
        self.properties = properties


@final
class Unsubscribe(Packet):
    def __init__(self, packet_id: int, filters: list[str], properties: Properties | None = None) -> None:
        super().__init__(UNSUBSCRIBE)
        self.packet_id = packet_id
        self.filters = filters
        self.properties = properties


@final
class Unsuback(Packet):
    """For 3.1.1 ``reasons`` is not encoded [MQTT-3.11]."""

    def __init__(self, packet_id: int, reasons: list[int], properties: Properties | None = None) -> None:
        super().__init__(UNSUBACK)
        self.packet_id = packet_id
        self.reasons = reasons
        self.properties = properties


@final
class Pingreq(Packet):
    def __init__(self) -> None:
        super().__init__(PINGREQ)


@final
class Pingresp(Packet):
    def __init__(self) -> None:
        super().__init__(PINGRESP)


@final
class Disconnect(Packet):
    def __init__(self, reason: int = 0, properties: Properties | None = None) -> None:
        super().__init__(DISCONNECT)
        self.reason = reason
        self.properties = properties


@final
class Auth(Packet):
    def __init__(self, reason: int = 0, properties: Properties | None = None) -> None:
        super().__init__(AUTH)
        self.reason = reason
        self.properties = properties

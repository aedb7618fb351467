"""What the decoder raises; nothing else in the gateway raises on a peer's input."""

from gateway.mqtt.reasons import MALFORMED_PACKET, PROTOCOL_ERROR


class PacketError(Exception):
    """The peer broke the protocol: ``reason`` is the MQTT 5.0 code to close with, ``text`` is for the log."""

    def __init__(self, reason: int, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text


class MalformedPacket(PacketError):
    """Bytes that cannot be parsed according to the standard [MQTT-4.13.1]."""

    def __init__(self, text: str, reason: int = MALFORMED_PACKET) -> None:
        super().__init__(reason, text)


class ProtocolError(PacketError):
    """Bytes that can be parsed but that the standard forbids [MQTT-4.13.1]."""

    def __init__(self, text: str, reason: int = PROTOCOL_ERROR) -> None:
        super().__init__(reason, text)

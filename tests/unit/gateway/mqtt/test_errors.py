import pytest

from gateway.mqtt.errors import MalformedPacket, PacketError, ProtocolError


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (PacketError(0x95, "why"), 0x95),
        (MalformedPacket("why"), 0x81),
        (ProtocolError("why"), 0x82),
        (ProtocolError("why", 0x94), 0x94),
    ],
)
def test_errors_carry_reason_and_text(error: PacketError, reason: int) -> None:
    assert error.reason == reason
    assert error.text == "why"
    assert str(error) == "why"
    assert isinstance(error, PacketError)

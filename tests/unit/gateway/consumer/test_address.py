"""Broker URLs."""

import ssl

import pytest

from gateway.consumer.address import address_of
from gateway.consumer.source import DeclarationError


def test_the_parts() -> None:
    assert address_of("mqtt://gateway") == ("gateway", 1883, None, None, None)
    assert address_of("mqtt://user@gateway:1884/") == ("gateway", 1884, "user", None, None)
    assert address_of("mqtt://a%40b:p%3Aw@[::1]") == ("::1", 1883, "a@b", b"p:w", None)
    assert address_of("mqtt://user:old@gateway", password="new").password == b"new"


def test_tls() -> None:
    found = address_of("mqtts://gateway")
    assert found.port == 8883
    assert found.tls is not None
    assert found.tls.verify_mode is ssl.CERT_REQUIRED
    own = ssl.create_default_context()
    assert address_of("mqtt://gateway", tls=own).tls is own


@pytest.mark.parametrize(
    "url",
    [
        "gateway",
        "http://gateway",
        "mqtt://",
        "mqtt://..",
        "mqtt://gateway:x",
        "mqtt://gateway:70000",
        "mqtt://gateway/topic",
        "",
    ],
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(DeclarationError, match="expected"):
        address_of(url)


def test_a_password_is_not_shown() -> None:
    with pytest.raises(DeclarationError) as raised:
        address_of("http://user:secret@gateway")
    assert "secret" not in str(raised.value)
    with pytest.raises(DeclarationError, match="needs a user name"):
        address_of("mqtt://gateway", password="secret")

"""Which program is behind a client id."""

import pytest

from gateway.doctor.products import QOS, is_made_up, product_of, stem
from gateway.settings.collector import PRODUCTS


@pytest.mark.parametrize(
    ("client_id", "product", "made_up"),
    [
        ("Telegraf-Consumer-aB3dE", "telegraf", True),
        ("telegraf-line1", "telegraf", False),
        ("nodered21a426d05b02899f", "node-red", True),
        ("nodered_0123456789abcdef", "node-red", True),
        ("nodered_line1", "node-red", False),
        ("mqttjs_0a1b2c3d", "mqtt.js", True),
        ("mosq-2Ab3Cd4Ef5Gh6Ij7Kl", "mosquitto", True),
        ("forebay-0123456789abcdef", "forebay", True),
        ("benthos-1", "redpanda", False),
        ("historian", "other", False),
    ],
)
def test_by_its_id(client_id: str, product: str, made_up: bool) -> None:
    assert (product_of(client_id).name, is_made_up(client_id)) == (product, made_up)


def test_what_is_declared_wins() -> None:
    assert product_of("nodered_x", "factry").word(QOS) == "qosCollector = 1"
    assert product_of("x", "other").word(QOS) == "QoS = 1"
    for name in PRODUCTS:
        assert product_of("x", name).name == name


@pytest.mark.parametrize(
    ("client_id", "root"),
    [("agent-7f3a9c21", "agent"), ("agent_00000042", "agent"), ("collector", ""), ("line1", ""), ("4711abcd", "")],
)
def test_the_end_that_looks_drawn_by_lot(client_id: str, root: str) -> None:
    assert stem(client_id) == root

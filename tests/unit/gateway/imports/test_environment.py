"""The files that TBMQ's settings are in."""

import pytest

from gateway.imports.environment import read
from gateway.imports.table import Given, ImportFileError

_EXPECTED = {"MQTT_MAX_IN_FLIGHT_MSGS": "500", "MQTT_MSG_WRITE_AND_FLUSH": "false"}


@pytest.mark.parametrize(
    "text",
    [
        "MQTT_MAX_IN_FLIGHT_MSGS=500\nMQTT_MSG_WRITE_AND_FLUSH=false\n",
        "# of the broker\n\nexport MQTT_MAX_IN_FLIGHT_MSGS='500' # so many\r\nMQTT_MSG_WRITE_AND_FLUSH = \"false\"\r\n",
        "- MQTT_MAX_IN_FLIGHT_MSGS=500\n- MQTT_MSG_WRITE_AND_FLUSH=false\n",
        "MQTT_MAX_IN_FLIGHT_MSGS: 500\nMQTT_MSG_WRITE_AND_FLUSH: 'false'\n",
        "environment:\n  - MQTT_MAX_IN_FLIGHT_MSGS=500\n  - MQTT_MSG_WRITE_AND_FLUSH=${FLUSH:-false}\n",
        "mqtt:\n  max-in-flight-msgs: '${MQTT_MAX_IN_FLIGHT_MSGS:500}'\n"
        '  write-and-flush: "${MQTT_MSG_WRITE_AND_FLUSH:${OTHER:false}}"\n',
        "version: '3'\nservices:\n  tbmq:\n    image: x:1\n    ports: ['1883:1883']\n    environment:\n"
        "      MQTT_MAX_IN_FLIGHT_MSGS: ${MAX:-500}\n      MQTT_MSG_WRITE_AND_FLUSH: false\n",
        "x-env: &env\n  MQTT_MAX_IN_FLIGHT_MSGS: 1\n  MQTT_MSG_WRITE_AND_FLUSH: false\nservices:\n  a:\n"
        "    environment:\n      MQTT_MAX_IN_FLIGHT_MSGS: 500\n      <<: *env\n",
        "kind: ConfigMap\nmetadata:\n  name: tbmq\ndata:\n  MQTT_MAX_IN_FLIGHT_MSGS: '500'\n"
        "---\nkind: StatefulSet\nspec:\n  env:\n    - name: MQTT_MSG_WRITE_AND_FLUSH\n      value: 'false'\n",
    ],
)
def test_ways_to_write_the_same(text: str) -> None:
    assert {given.name: given.text for given in read(text)} == _EXPECTED


def test_keys_without_a_variable_keep_their_dotted_name() -> None:
    text = "mqtt:\n  write-and-flush: false\nspring.lifecycle.timeout: 1m\nlist:\n  - a: 1\n"
    assert read(text) == [
        Given("mqtt.write-and-flush", "false", 2),
        Given("spring.lifecycle.timeout", "1m", 3),
        Given("list.0.a", "1", 5),
    ]


def test_values_that_are_elsewhere() -> None:
    assert read("A_B=$OTHER\nC_D=${OTHER}\n") == [Given("A_B", None, 1), Given("C_D", None, 2)]
    assert read("kind: Pod\nenv:\n  - name: A_B\n    valueFrom: {}\n") == [Given("A_B", None, 3)]
    assert read("a: ${A_B}\n") == [Given("A_B", None, 1)]


@pytest.mark.parametrize("text", ["", "\n\n# nothing\n", "---\n"])
def test_nothing(text: str) -> None:
    assert read(text) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("A_B=1\nwhat is this\n", 'line 2: "what is this": expected KEY=value'),
        ("just words\n", 'line 1: "just words": expected YAML or KEY=value lines'),
        ("a:\n  b: 1\n c: 2\n", "line 3: expected YAML or KEY=value lines: "),
        ("a: *none\n", "line 1: expected YAML or KEY=value lines: found undefined alias 'none'"),
        ("a: \x07\n", "expected YAML or KEY=value lines: unacceptable character"),
        ("a: " + "[" * 40 + "1" + "]" * 40, "line 1: a.0"),
        ("a: " + "[" * 1000, "expected YAML or KEY=value lines of at most 30 levels"),
        ("a: &a\n  b: *a\n", "line 1: a.b.b"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, line: str) -> None:
    with pytest.raises(ImportFileError) as raised:
        read(text)
    assert str(raised.value).startswith(line)
    assert "\n" not in str(raised.value)

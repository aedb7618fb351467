"""What a handler reads: one topic, or a filter; and what is refused before anything is sent."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias, final

from gateway.consumer.message import Message
from gateway.core.topics import check_filter, matches

TOPIC_BYTES_MAX: Final = 65_535

RetryTo: TypeAlias = str | Callable[[Message[Any]], str]
"""Where copies go: a topic, or what makes one for each delivery."""


@final
class DeclarationError(Exception):
    """A registration that cannot work, and why. The consumer does not start."""


def check_topic(topic: str, what: str) -> str:
    """``topic`` if it can be published to. Raises DeclarationError, which begins with ``what``."""
    if "+" in topic or "#" in topic:
        raise DeclarationError(f'{what}: "{topic}" holds a wildcard, expected one topic')
    if not check_filter(topic, 0) or not _fits(topic):
        raise DeclarationError(f'{what}: "{topic}" is no topic')
    return topic


def _fits(text: str) -> bool:
    try:
        return len(text.encode()) <= TOPIC_BYTES_MAX
    except UnicodeEncodeError:
        return False


@final
class MqttTopic:
    """One topic. Copies of its deliveries go to the topic itself. Raises DeclarationError for a wildcard."""

    filter: str
    retry_to: RetryTo | None

    def __init__(self, topic: str) -> None:
        if "+" in topic or "#" in topic:
            raise DeclarationError(
                f'MqttTopic("{topic}"): a wildcard needs MqttFilter, since nothing can be published to it'
            )
        self.filter = check_topic(topic, f'MqttTopic("{topic}")')
        self.retry_to = topic

    def __repr__(self) -> str:
        return f'MqttTopic("{self.filter}")'


@final
class MqttFilter:
    """A topic filter. ``retry_to`` says where copies go, since nothing can be published to a filter.

    The handler reads a ``retry_to`` topic too, where no filter of the consumer does. A function makes the topic from
    the message; what it makes must be read by some subscription. Raises DeclarationError.
    """

    filter: str
    retry_to: RetryTo | None

    def __init__(self, filter: str, *, retry_to: RetryTo | None = None) -> None:
        if not check_filter(filter, 0) or not _fits(filter):
            raise DeclarationError(f'MqttFilter("{filter}"): no topic filter')
        if filter == "$share" or filter.startswith("$share/"):
            raise DeclarationError(f'MqttFilter("{filter}"): expected the plain filter and shared="GROUP"')
        if isinstance(retry_to, str):
            check_topic(retry_to, f'MqttFilter("{filter}"): retry_to')
        self.filter = filter
        self.retry_to = retry_to

    def __repr__(self) -> str:
        return f'MqttFilter("{self.filter}")'


Source: TypeAlias = MqttTopic | MqttFilter


def overlap(one: str, other: str) -> bool:
    """Whether some topic matches both filters."""
    if "+" not in one and "#" not in one:
        return matches(other, one)
    if "+" not in other and "#" not in other:
        return matches(one, other)
    left, right = one.split("/"), other.split("/")
    if _hidden(left[0], right[0]) or _hidden(right[0], left[0]):
        return False
    return _overlap(left, right)


def _hidden(level: str, wildcard: str) -> bool:
    """A wildcard at the beginning matches no topic that begins with $ [MQTT-4.7.2-1]."""
    return level.startswith("$") and wildcard in ("+", "#")


def _overlap(left: list[str], right: list[str]) -> bool:
    for i in range(max(len(left), len(right)) + 1):
        a = left[i] if i < len(left) else None
        b = right[i] if i < len(right) else None
        if a == "#" or b == "#":
            return True
        if a is None or b is None:
            return a is b
        if a != b and a != "+" and b != "+":
            return False
    return True

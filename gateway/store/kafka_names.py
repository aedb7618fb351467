"""What TBMQ calls the Kafka topic and the consumer group of an APPLICATION client."""

import hashlib
import re
from typing import Final

_TOPIC: Final = "tbmq.msg.app."
_GROUP: Final = "application-persisted-msg-consumer-group-"
_PLAIN: Final = re.compile(r"[a-zA-Z0-9]+")
_BYTES_MAX: Final = 249  # of a topic's name


def topic_of(client_id: str, prefix: str = "") -> str:
    """The topic: letters and digits as they are, any other client id as the SHA-256 of its UTF-8, in hex.

    So is one that would make the name longer than Kafka takes, where TBMQ fails.
    """
    name = client_id if _PLAIN.fullmatch(client_id) else _hash(client_id)
    topic = prefix + _TOPIC + name
    return topic if len(topic) <= _BYTES_MAX else prefix + _TOPIC + _hash(client_id)


def group_of(client_id: str, prefix: str = "") -> str:
    """The consumer group, which has no illegal characters: the client id as it is."""
    return prefix + _GROUP + client_id


def _hash(client_id: str) -> str:
    return hashlib.sha256(client_id.encode()).hexdigest()

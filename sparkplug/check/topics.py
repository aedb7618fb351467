"""Requirements on topics, QoS and retain: all that the outside of a PUBLISH shows."""

from typing import Final

from sparkplug.actions import Publish
from sparkplug.check.verdicts import Verdicts
from sparkplug.topic import NAMESPACE, STATE, MessageType, Topic, TopicError, check_id, parse

_FLOW: Final = "message-flow-edge-node-birth-publish-nbirth"
_DEVICE_FLOW: Final = "message-flow-device-birth-publish-dbirth"
_DEVICE_TYPES: Final = "topic-structure-namespace-device-id-associated-message-types"
_NODE_TYPES: Final = "topic-structure-namespace-device-id-non-associated-message-types"

_TOPIC_IDS: Final = {type: (f"topics-{type.lower()}-topic",) for type in MessageType} | {
    MessageType.NBIRTH: ("topics-nbirth-topic", f"{_FLOW}-topic"),
    MessageType.DBIRTH: ("topics-dbirth-topic", f"{_DEVICE_FLOW}-topic"),
    MessageType.NCMD: ("topics-ncmd-topic", "operational-behavior-data-commands-ncmd-verb"),
    MessageType.DCMD: ("topics-dcmd-topic", "operational-behavior-data-commands-dcmd-verb"),
}
_QOS_IDS: Final = {
    type: (f"topics-{type.lower()}-mqtt", f"payloads-{type.lower()}-qos")
    for type in (MessageType.NDATA, MessageType.DDATA, MessageType.NCMD, MessageType.DCMD)
} | {
    MessageType.NBIRTH: ("topics-nbirth-mqtt", "payloads-nbirth-qos", f"{_FLOW}-qos"),
    MessageType.DBIRTH: ("topics-dbirth-mqtt", "payloads-dbirth-qos", f"{_DEVICE_FLOW}-qos"),
    MessageType.DDEATH: ("topics-ddeath-mqtt",),
}
_RETAIN_IDS: Final = {
    type: (f"topics-{type.lower()}-mqtt", f"payloads-{type.lower()}-retain")
    for type in (MessageType.NDATA, MessageType.DDATA, MessageType.NCMD, MessageType.DCMD)
} | {
    MessageType.NBIRTH: ("topics-nbirth-mqtt", "payloads-nbirth-retain", f"{_FLOW}-retained"),
    MessageType.DBIRTH: ("topics-dbirth-mqtt", "payloads-dbirth-retain", f"{_DEVICE_FLOW}-retained"),
    MessageType.DDEATH: ("topics-ddeath-mqtt",),
}
_ID_IDS: Final = (
    ("intro-group-id-string", "intro-group-id-chars", "topic-structure-namespace-valid-group-id"),
    ("intro-edge-node-id-string", "intro-edge-node-id-chars", "topic-structure-namespace-valid-edge-node-id"),
    ("intro-device-id-string", "intro-device-id-chars", "topic-structure-namespace-valid-device-id"),
)


def is_ours(topic: str) -> bool:
    """The topic is meant to be Sparkplug's: what else clients publish is not judged."""
    first = topic.split("/", 1)[0]
    return first.lower().startswith("spbv") or (first == STATE and topic.count("/") == 1)


def check_topic(verdicts: Verdicts, topic: str) -> Topic | None:
    """Judge a topic that is_ours; returns what it says, None when it is STATE or cannot be read."""
    levels = topic.split("/")
    if levels[0] == STATE:
        return None
    verdicts.expect(levels[0] == NAMESPACE, f"{topic}: the namespace is {levels[0]}", "topic-structure-namespace-a")
    if levels[1:2] == [STATE] and len(levels) == 3:
        verdicts.met("topic-structure", _NODE_TYPES)
        return None
    type = levels[2] if len(levels) > 2 else ""
    known = type in MessageType.__members__
    good = len(levels) == (5 if type.startswith("D") else 4)
    verdicts.expect(known and good, f"{topic}: not GROUP/TYPE/NODE[/DEVICE]", "topic-structure")
    if known:
        of_device = type.startswith("D")
        verdicts.expect(good, f"{topic}: {len(levels)} levels", _DEVICE_TYPES if of_device else _NODE_TYPES)
        verdicts.expect(good, f"{topic}: {len(levels)} levels", *_TOPIC_IDS[MessageType(type)])
    elif type == STATE:
        verdicts.unmet(f"{topic}: STATE of a node", _NODE_TYPES)
    _check_ids(verdicts, topic, [*levels[1:2], *levels[3:5]])
    try:
        found = parse(topic)
    except TopicError:
        return None
    return found if isinstance(found, Topic) else None


def _check_ids(verdicts: Verdicts, topic: str, values: list[str]) -> None:
    for value, ids in zip(values, _ID_IDS, strict=False):
        try:
            check_id("id", value)
        except TopicError as error:
            verdicts.unmet(f"{topic}: {error}", *ids)
        else:
            verdicts.met(*ids)


def check_outside(verdicts: Verdicts, type: MessageType, message: Publish) -> None:
    """Judge QoS and retain of a message."""
    verdicts.expect(message.qos == 0, f"{message.topic}: QoS {message.qos}", *_QOS_IDS.get(type, ()))
    verdicts.expect(not message.retain, f"{message.topic}: retained", *_RETAIN_IDS.get(type, ()))

"""MQTT topic filters, as far as an observer needs them."""


def matches(name: str, topic: str) -> bool:
    """The filter ``name`` takes the topic [MQTT-4.7.1-2, MQTT-4.7.1-3, MQTT-4.7.2-1]."""
    levels, wanted = topic.split("/"), name.split("/")
    if topic.startswith("$") and wanted[0] in ("+", "#"):
        return False
    if wanted[-1] == "#":
        wanted.pop()
        if len(levels) < len(wanted):
            return False
        levels = levels[: len(wanted)]
    return len(levels) == len(wanted) and all(one in ("+", level) for one, level in zip(wanted, levels, strict=True))

"""Packets as plain data, so that tests can compare them whole, compiled or interpreted."""

from gateway.mqtt.packets import Filter, Packet, Properties, Will

_ABSENT: tuple[object, ...] = (-1, None, [])


def plain(value: object) -> object:
    """Dicts instead of codec objects; empty properties are no properties, and a frame's bytes do not count."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, Properties):
        named = {name: getattr(value, name) for name in _names(value)}
        return {name: item for name, item in named.items() if item not in _ABSENT} or None
    if isinstance(value, Packet | Will | Filter):
        skipped = ("frame", "body", "id_at")
        fields = {name: plain(getattr(value, name)) for name in _names(value) if name not in skipped}
        return {"class": type(value).__name__, **fields}
    return value


def _names(value: object) -> list[str]:
    return [name for name in dir(value) if not name.startswith("_")]

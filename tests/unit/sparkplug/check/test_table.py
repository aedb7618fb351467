from collections import Counter

from sparkplug.check.table import REQUIREMENTS


def test_every_requirement_is_there_once() -> None:
    assert len(REQUIREMENTS) == 299
    roles = Counter(one.role for one in REQUIREMENTS.values())
    assert roles == {
        "host application": 87,
        "edge node": 86,
        "payload": 68,
        "device": 45,
        "edge node, host application": 2,
        "conformant broker": 4,
        "aware broker": 7,
    }
    assert Counter(one.level for one in REQUIREMENTS.values()) == {"MUST": 281, "SHOULD": 10, "MAY": 8}
    assert all(id == one.id and one.what for id, one in REQUIREMENTS.items())

import pytest

from sparkplug.check.matching import matches


@pytest.mark.parametrize(
    ("name", "topic", "taken"),
    [
        ("a/b", "a/b", True),
        ("a/+", "a/b", True),
        ("a/#", "a/b/c", True),
        ("a/#", "a", True),
        ("#", "a/b", True),
        ("a/+/c", "a/b/c", True),
        ("a/+", "a", False),
        ("a/+", "a/b/c", False),
        ("a/b/#", "a/c/d", False),
        ("a/b", "a/c", False),
        ("#", "$sparkplug/x", False),
        ("+/x", "$sparkplug/x", False),
        ("$sparkplug/#", "$sparkplug/x", True),
    ],
)
def test_filters(name: str, topic: str, taken: bool) -> None:
    assert matches(name, topic) is taken

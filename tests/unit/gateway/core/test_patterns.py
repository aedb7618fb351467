import pytest

from gateway.core.patterns import is_plain, matches


@pytest.mark.parametrize(
    ("text", "pattern", "fits"),
    [
        ("plc-1", "plc-*", True),
        ("plc-1", "plc-?", True),
        ("plc-12", "plc-?", False),
        ("xplc-1", "plc-*", False),
        ("[a]", "[a]", True),
        ("a", "[a]", False),
        ("A", "a", False),
        ("", "*", True),
    ],
)
def test_only_stars_and_question_marks_are_special(text: str, pattern: str, fits: bool) -> None:
    assert matches(text, pattern) is fits


def test_what_is_plain() -> None:
    assert is_plain("plc-[1]")
    assert not is_plain("plc-*")
    assert not is_plain("plc-?")

"""Patterns for names of clients and users."""

from fnmatch import fnmatchcase


def matches(text: str, pattern: str) -> bool:
    """Whether the whole text fits; ``*`` stands for any characters, ``?`` for one, all else for itself."""
    return fnmatchcase(text, pattern.replace("[", "[[]"))


def is_plain(pattern: str) -> bool:
    """Whether it fits one text only."""
    return "*" not in pattern and "?" not in pattern

"""Names of machines."""


def is_host(text: str) -> bool:
    """Whether it can be asked for: no resolver takes an empty label, or one of more than 63 bytes."""
    try:
        return bool(text.encode("idna")) and text.isprintable() and " " not in text
    except UnicodeError:
        return False

"""What the store says when it cannot start."""

from typing import final


@final
class StoreError(Exception):
    """The database cannot be opened as it is; the text is one line for the operator."""

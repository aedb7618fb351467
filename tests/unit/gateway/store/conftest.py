"""Opens stores and closes whatever a test leaves open."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.gateway.store.opened import Opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "forebay.db"


@pytest.fixture
def opened(path: Path) -> Iterator[Callable[..., Opened]]:
    """Opens the database at ``path``; closes whatever is still open at the end."""
    all_of_them: list[Opened] = []

    def open_it(**options: Any) -> Opened:
        one = Opened(path, **options)
        all_of_them.append(one)
        return one

    yield open_it
    for one in all_of_them:
        one.close()

"""Whether the files that a TLS connection was made from are other ones now."""

from collections.abc import Iterable
from pathlib import Path
from typing import final


@final
class Files:
    """Compares what identifies their content without reading it."""

    def __init__(self, paths: Iterable[Path | None]) -> None:
        self._paths = [path for path in paths if path is not None]
        self._seen = self._look()

    def changed(self) -> bool:
        """Since the last call; a file that is missing for the moment of its replacement says nothing."""
        now = self._look()
        if None in now or now == self._seen:
            return False
        self._seen = now
        return True

    def _look(self) -> list[tuple[int, int, int] | None]:
        found: list[tuple[int, int, int] | None] = []
        for path in self._paths:
            try:
                about = path.stat()
            except OSError:
                found.append(None)
            else:
                found.append((about.st_ino, about.st_size, about.st_mtime_ns))
        return found

"""What uplinks know over a restart besides their queues: this gateway's own id, which of them are paused, and what
they have subscribed to at which broker.
"""

import json
import os
import secrets
from pathlib import Path
from typing import Final, final

FILE: Final = "uplinks.json"  # in the data folder
_ID_BYTES: Final = 6


@final
class Remembered:
    """``note`` is a line about a file that could not be read, and is set aside then; else empty.

    The id is in the client ids that brokers know this gateway by, and marks what it hands on: it never changes.
    """

    def __init__(self, folder: Path) -> None:
        self.note = ""
        self.paused: set[str] = set()
        self.gateway_id = ""
        self._asked: dict[str, list[str]] = {}  # uplink and broker -> filters that the session there may have
        self._path = folder / FILE
        self._read()
        if not self.gateway_id:
            self.gateway_id = secrets.token_hex(_ID_BYTES)
            try:
                self._write()
            except OSError as e:
                self.note = f"{self._path}: cannot be written: {e.strerror or e}"

    def pause(self, name: str, paused: bool) -> None:
        """On disk when this returns. Raises OSError."""
        if (name in self.paused) == paused:
            return
        self.paused ^= {name}
        try:
            self._write()
        except OSError:
            self.paused ^= {name}
            raise

    def asked(self, name: str, remote: str) -> set[str]:
        """The filters that this uplink's session at that broker may have."""
        return set(self._asked.get(f"{name} {remote}", ()))

    def ask(self, name: str, remote: str, filters: set[str]) -> None:
        """It may have these from now on; on disk when this returns. Raises OSError."""
        before = self.asked(name, remote)
        if before == filters:
            return
        self._asked[f"{name} {remote}"] = sorted(filters)
        try:
            self._write()
        except OSError:
            self._asked[f"{name} {remote}"] = sorted(before)
            raise

    def _read(self) -> None:
        try:
            found = json.loads(self._path.read_bytes())
            name, paused = found["id"], found["paused"]
            if not (isinstance(name, str) and 0 < len(name) <= 64 and name.isalnum() and name.isascii()):
                raise ValueError("id")
            if not isinstance(paused, list):
                raise ValueError("paused")
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as e:
            aside = self._path.with_suffix(".bad")
            self.note = f"{self._path}: cannot be read ({type(e).__name__}: {e}), set aside as {aside.name}"
            try:
                self._path.replace(aside)
            except OSError:
                pass  # the next write says what is wrong there
            return
        self.gateway_id = name
        self.paused = {one for one in paused if isinstance(one, str)}
        asked = found.get("asked")
        for key, filters in asked.items() if isinstance(asked, dict) else ():
            if isinstance(filters, list):
                self._asked[key] = [one for one in filters if isinstance(one, str)]

    def _write(self) -> None:
        fresh = self._path.with_suffix(".new")
        with fresh.open("w", encoding="utf-8") as out:
            json.dump({"id": self.gateway_id, "paused": sorted(self.paused), "asked": self._asked}, out)
            out.flush()
            os.fsync(out.fileno())
        fresh.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

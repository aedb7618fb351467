"""The outgoing store on disk: what a client sent and the broker has not acknowledged, for its next run."""

from collections.abc import Sequence
from pathlib import Path
from typing import final

import sqlite_utils

from gateway.link.keeping import Change
from gateway.synced import synced


class OutboxError(Exception):
    """The file cannot be used; the text names it."""


@final
class SqliteOutbox:
    """One file for one client id and protocol version: packet ids and frames mean nothing to another session.

    A message survives a power cut too (``synchronous`` FULL). All methods run in the thread of the first of them.
    """

    def __init__(self, path: Path, client_id: str, version: int = 5) -> None:
        self._path, self._client_id, self._version = path, client_id, version
        self._database: sqlite_utils.Database | None = None

    def load(self) -> list[tuple[int, bytes, bool]]:
        """Open the file, made anew where there is none. Raises OutboxError."""
        try:
            self._database = database = sqlite_utils.Database(self._path)
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=FULL")
            database.table("owner").create({"client_id": str, "version": int}, if_not_exists=True)
            database.table("outgoing").create(
                {"number": int, "packet_id": int, "frame": bytes, "released": int}, pk="number", if_not_exists=True
            )
            database.table("outgoing").create_index(["packet_id"], unique=True, if_not_exists=True)
            if not database.table("owner").count:
                database.table("owner").insert({"client_id": self._client_id, "version": self._version})
            owner = next(iter(database.table("owner").rows))
        except Exception as error:  # sqlite3's own, without naming it here
            raise OutboxError(f"{self._path}: cannot be used as an outgoing store: {error}") from None
        if (owner["client_id"], owner["version"]) != (self._client_id, self._version):
            raise OutboxError(
                f"{self._path}: belongs to client id {owner['client_id']!r} and MQTT version {owner['version']},"
                f" expected {self._client_id!r} and {self._version}"
            )
        rows = database.query("SELECT packet_id, frame, released FROM outgoing ORDER BY number")
        return [(row["packet_id"], row["frame"], bool(row["released"])) for row in rows]

    def apply(self, changes: Sequence[Change]) -> None:
        assert self._database is not None
        execute = self._database.execute
        with synced(self._path.parent), self._database.atomic():
            for change in changes:
                if change.frame is not None:
                    execute(
                        "INSERT OR REPLACE INTO outgoing (packet_id, frame, released) VALUES (?, ?, 0)",
                        (change.packet_id, change.frame),
                    )
                elif change.released:
                    execute("UPDATE outgoing SET released = 1 WHERE packet_id = ?", (change.packet_id,))
                else:
                    execute("DELETE FROM outgoing WHERE packet_id = ?", (change.packet_id,))

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

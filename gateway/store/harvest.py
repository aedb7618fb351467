"""Reads the rows of damaged tables around the pages that cannot be read."""

import sqlite3
from collections.abc import Iterator
from typing import Final, final
from zlib import crc32

from gateway.store.load import NO_RECORDS_CRC

Value = int | bytes
Row = tuple[object, ...]
Bound = tuple[str, Row]  # a condition and its parameters


@final
class Table:
    """One table: its columns with the kind of each (i integer, t text, b blob, v integer or text), and its keys."""

    def __init__(self, name: str, columns: str, kinds: str, keys: str, key_kinds: str) -> None:
        self.name = name
        self.columns = columns
        self.kinds = kinds
        self.keys = keys  # in the order of the b-tree
        self.key_kinds = key_kinds


# without the records of the segments: those are fetched one by one, so that a bad one costs only itself
TABLES: Final = (
    Table("meta", "key, value", "tv", "rowid", "i"),
    Table("session", "sid, client_id, kind, expiry_s, deadline", "itiii", "sid", "i"),
    Table("subscription", "sid, filter, options, identifier", "itii", "sid, filter", "it"),
    Table("cursor", "sid, crc, state", "iib", "sid", "i"),
    Table("counter", "sid, name, value", "iti", "sid, name", "it"),
    Table("will", "client_id, crc, data", "tib", "client_id", "t"),
    Table("bridge", "key, crc, data", "tib", "key", "t"),
    Table("delayed", "id, crc, data", "iib", "id", "i"),
    Table("retained", "topic, crc, data", "tib", "topic", "t"),
    Table("segment", "id, last, targets_crc, records_crc, targets", "iiiib", "id", "i"),
)


@final
class Harvest:
    """Copies what can be read, counts what was kept and names what was not."""

    def __init__(self, target: sqlite3.Connection) -> None:
        self.gapped: set[str] = set()  # tables with parts that no path leads to
        self._target = target
        self._losses: list[str] = []
        self._lost_records = 0
        self._before = {table.name: _count(target, table) for table in TABLES}

    def summary(self) -> str:
        """As "1 session, 3 subscription, ...", in the order of the tables."""
        kept = [(_count(self._target, table) - self._before[table.name], table.name) for table in TABLES]
        return ", ".join(f"{count} {name}" for count, name in kept if count) or "nothing"

    def losses(self) -> list[str]:
        """One line for each thing that is missing."""
        if not self._lost_records:
            return self._losses
        return [*self._losses, f"the messages of {self._lost_records} segment(s) were damaged and are lost"]

    def note(self, line: str) -> None:
        """Add a line to the losses."""
        self._losses.append(line)

    def walk(self, source: sqlite3.Connection, table: Table) -> None:
        """Copy every row of one table that can be reached and makes sense."""
        walk = _Walk(source, table)
        if bad := self._copy(source, table, walk):
            self._losses.append(f"table {table.name}: {bad} row(s) made no sense and are lost")
        if walk.gaps:
            self._losses.append(f"table {table.name}: {walk.gaps} unreadable part(s), rows may be missing")
            self.gapped.add(table.name)

    def add_leaf(self, source: sqlite3.Connection, table: Table) -> None:
        """Copy what one leaf of the table has and the walk could not reach."""
        self._copy(source, table, _Walk(source, table))

    def _copy(self, source: sqlite3.Connection, table: Table, walk: "_Walk") -> int:
        """Rows that made no sense."""
        with_records = table.name == "segment"
        columns = f"{table.columns}, records" if with_records else table.columns
        # a row that is already there stands: a walk and a leaf may meet the same one
        insert = f"INSERT OR IGNORE INTO {table.name} ({columns}) VALUES ({', '.join('?' * (columns.count(',') + 1))})"
        bad = 0
        for row in walk.rows():
            good = _checked(row, table.kinds)
            if good is None:
                bad += 1
                continue
            if with_records:
                if self._target.execute("SELECT 1 FROM segment WHERE id = ?", good[:1]).fetchone() is not None:
                    continue
                good, whole = _with_records(source, good)
                self._lost_records += not whole
            self._target.execute(insert, good)
        return bad


def _count(connection: sqlite3.Connection, table: Table) -> int:
    count: int = connection.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0]
    return count


def _checked(row: Row, kinds: str) -> Row | None:
    """The row with its text decoded, None when a value is not of its column's kind."""
    values: list[object] = []
    for value, kind in zip(row, kinds, strict=True):
        if isinstance(value, int) and kind in "iv":
            values.append(value)
        elif isinstance(value, bytes) and kind == "b":
            values.append(value)
        elif isinstance(value, bytes) and kind in "tv" and b"\x00" not in value:  # half a page of NUL; MQTT allows none
            try:
                values.append(value.decode())
            except UnicodeDecodeError:
                return None
        else:
            return None
    return tuple(values)


def _with_records(source: sqlite3.Connection, row: Row) -> tuple[Row, bool]:
    segment_id, last, targets_crc, records_crc, targets = row
    try:
        found = source.execute("SELECT records FROM segment WHERE id = ?", (segment_id,)).fetchone()
    except sqlite3.Error:
        found = None
    if found is not None and isinstance(found[0], bytes) and crc32(found[0]) == records_crc:
        return (*row, found[0]), True
    # the targets stay, so that each session's loss is counted when its records are asked for
    return (segment_id, last, targets_crc, NO_RECORDS_CRC, targets, b""), False


@final
class _Walk:
    """Goes through a table in key order, leaps over what cannot be read and comes back to it from behind."""

    def __init__(self, source: sqlite3.Connection, table: Table) -> None:
        self.gaps = 0
        self._source = source
        self._table = table
        self._columns = f"{table.keys}, {table.columns} FROM {table.name}"
        self._keys = table.keys.split(", ")
        # text comes and goes as bytes: what is damaged need not be UTF-8
        self._slots = ["CAST(? AS TEXT)" if kind == "t" else "?" for kind in table.key_kinds]
        self._broken = False

    def rows(self) -> Iterator[Row]:
        """Every row that can be read."""
        lower: Bound | None = None
        last: Value | None = None  # of the first key column
        while True:
            for keys, row in self._run(lower, None, "ASC"):
                lower = self._beyond(">", keys)
                last = keys[0] if isinstance(keys[0], int | bytes) else None
                yield row
            if not self._broken:
                return
            self.gaps += 1
            landing = self._landing(last)
            upper = None if landing is None else self._first("<", landing)
            for _, row in self._run(lower, upper, "DESC"):
                yield row
            if landing is None:
                return
            lower = self._first(">=", landing)
            last = landing

    def _run(self, lower: Bound | None, upper: Bound | None, order: str) -> Iterator[tuple[Row, Row]]:
        """(keys, row) between two bounds until the end or the first error (``_broken``)."""
        limit, found = "", True
        self._broken = False
        while found:
            found = False
            try:
                for row in self._select(lower, upper, order, limit):
                    keys = row[: len(self._keys)]
                    self._check_order(keys, lower, upper)
                    if order == "ASC":
                        lower = self._beyond(">", keys)
                    else:
                        upper = self._beyond("<", keys)
                    found = bool(limit)
                    yield keys, row[len(keys) :]
            except sqlite3.Error:
                self._broken = bool(limit)
                # the driver reads one row ahead and drops the one before an error: fetch that one alone
                limit, found = " LIMIT 1", not limit

    def _check_order(self, keys: Row, lower: Bound | None, upper: Bound | None) -> None:
        """A torn page can yield rows that were not asked for; without this the walk would go round in circles."""
        for bound, wanted in ((lower, 1), (upper, -1)):
            if bound is None:
                continue
            sql, values = bound
            if _compare(keys, values) != wanted and not (">=" in sql and _compare(keys, values) == 0):
                raise sqlite3.DatabaseError("rows out of order")

    def _select(self, lower: Bound | None, upper: Bound | None, order: str, limit: str) -> sqlite3.Cursor:
        bounds = [bound for bound in (lower, upper) if bound is not None]
        where = f"WHERE {' AND '.join(sql for sql, _ in bounds)}" if bounds else ""
        ordered = ", ".join(f"{key} {order}" for key in self._keys)
        return self._source.execute(
            f"SELECT {self._columns} {where} ORDER BY {ordered}{limit}",
            [value for _, values in bounds for value in values],
        )

    def _beyond(self, comparison: str, keys: Row) -> Bound:
        return f"({self._table.keys}) {comparison} ({', '.join(self._slots)})", keys

    def _first(self, comparison: str, value: Value) -> Bound:
        return f"{self._keys[0]} {comparison} {self._slots[0]}", (value,)

    def _landing(self, last: Value | None) -> Value | None:
        """A value of the first key column from which on rows can be read again; None when there is none."""
        for value in _leaps(last, self._table.key_kinds[0]):
            try:
                bound = self._first(">=", value)
                row = self._select(bound, None, "ASC", " LIMIT 1").fetchone()
                if row is None:
                    return None
                self._check_order(row[: len(self._keys)], bound, None)
                return value
            except sqlite3.Error:
                continue
        return None


def _compare(keys: Row, values: Row) -> int | None:
    """-1, 0 or 1 as the keys stand before, at or behind the values; None when they cannot be compared."""
    for key, value in zip(keys, values, strict=False):
        ints = isinstance(key, int) and isinstance(value, int)
        if not ints and not (isinstance(key, bytes) and isinstance(value, bytes)):
            return None
        if key != value:
            return 1 if key > value else -1  # type: ignore[operator]
    return 0


def _leaps(last: Value | None, kind: str) -> Iterator[Value]:
    """Values above ``last``, further away each time."""
    if kind == "i":
        start = last if isinstance(last, int) else 0
        for power in range(62):
            if start + (1 << power) < 1 << 63:
                yield start + (1 << power)
        return
    text = last if isinstance(last, bytes) else b""
    for length in range(len(text) - 1, -1, -1):
        if text[length] < 0xFF:
            yield text[:length] + bytes((text[length] + 1,))
    for first in range((text or b"\0")[0] + 1, 0x100):
        yield bytes((first,))

"""The broker with SQLite told not to sync: the crash tests must catch it. Arguments as for ``python -m gateway``."""

import sqlite3
from typing import Any

from tests.crash.mutant import serve

real_connect = sqlite3.connect


class Careless(sqlite3.Connection):
    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        careless = "pragma synchronous = off" if "synchronous" in sql.lower() else sql
        return super().execute(careless, *parameters)


def connect(*args: Any, **options: Any) -> sqlite3.Connection:
    db: sqlite3.Connection = real_connect(*args, **{"factory": Careless, **options})
    db.execute("pragma synchronous")
    return db


sqlite3.connect = connect  # type: ignore[assignment]

if __name__ == "__main__":
    serve()

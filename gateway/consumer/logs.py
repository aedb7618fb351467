"""Log lines of the consumer with their fields: as text, or as a JSON object each."""

import json
import logging
from typing import Any, Final, final

_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """What a line says beside its text: topic, handler, reason_code ..."""
    return {name: value for name, value in vars(record).items() if name not in _OWN}


@final
class JsonLines(logging.Formatter):
    """One object for each line: level, logger, text, the fields, and a traceback where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {"level": record.levelname.lower(), "logger": record.name, "text": record.getMessage()}
        line |= fields_of(record)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


@final
class TextLines(logging.Formatter):
    """``level text field=value``, a traceback on the lines after it."""

    def format(self, record: logging.LogRecord) -> str:
        said = " ".join(f"{name}={value}" for name, value in fields_of(record).items())
        line = f"{record.levelname.lower()} {record.getMessage()}{' (' + said + ')' if said else ''}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line

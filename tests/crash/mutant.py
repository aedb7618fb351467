"""How the deliberately wrong builds start: ``run`` would start the broker anew in an interpreter that is right."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

import gateway.broker
from gateway.cli.main import main


def serve() -> None:
    """As ``python -m gateway``, with what was changed in this process."""
    os.execve = stay  # type: ignore[assignment]
    main()


def stay(_path: str, arguments: Sequence[str], _env: Mapping[str, str]) -> NoReturn:
    sys.exit(gateway.broker.main(arguments[-1]))

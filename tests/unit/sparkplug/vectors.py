"""The payloads of vectors.json: what other implementations encoded, and what it means."""

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

_FILE: Final = json.loads((Path(__file__).parent / "vectors.json").read_text())


class Case(NamedTuple):
    """``reference`` is what the specification makes of it, ``others`` what the named encoders made otherwise."""

    name: str
    expected: dict[str, Any]
    reference: bytes
    others: dict[str, bytes]


CASES: Final = [
    Case(
        case["id"],
        {key: value for key, value in case["expected"].items() if key != "message"},
        bytes.fromhex(case["reference"]),
        {encoder: bytes.fromhex(raw) for encoder, raw in case["other"].items()},
    )
    for case in _FILE["cases"]
]
EDGE: Final[dict[str, bytes]] = {name: bytes.fromhex(raw) for name, raw in _FILE["edge"].items()}
TAHU_C: Final = bytes.fromhex(_FILE["tahu_c"])
EVERY: Final[list[bytes]] = [
    *(raw for case in CASES for raw in (case.reference, *case.others.values())),
    *EDGE.values(),
    TAHU_C,
]

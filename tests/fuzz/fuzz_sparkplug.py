"""Coverage-guided fuzzing of Sparkplug payloads with atheris.

    PYTHONPATH=. python tests/fuzz/fuzz_sparkplug.py CORPUS_DIRECTORY -max_total_time=60

A finding is any exception but PayloadError, a payload that takes more than 50 ms of CPU, and one that says something
else when it is encoded again. The inputs to start from are the vectors.
"""

import sys
from pathlib import Path
from time import thread_time
from typing import Any

import atheris

with atheris.instrument_imports(include=["sparkplug"], exclude=["sparkplug.sparkplug_b_pb2"]):
    import sparkplug.reading
    import sparkplug.writing  # noqa: F401 -- the two that payload loads late
    from sparkplug.model import Payload, PayloadError
    from sparkplug.payload import decode, encode
    from sparkplug.plain import plain

from tests.unit.sparkplug.vectors import EVERY

SECONDS_MAX = 0.05
TYPES: dict[int | str, int] = {**{alias: alias % 36 for alias in range(64)}, "v": 3}


def decoded(raw: bytes) -> Payload | None:
    """None when it was refused."""
    try:
        return decode(raw, types=TYPES)
    except PayloadError:
        return None


def meaning(said: Any) -> Any:
    """Without what is written in one form only: a value left out as a null, a definition without a template_ref."""
    if isinstance(said, list):
        return [meaning(each) for each in said]
    if isinstance(said, dict):
        return {
            key: meaning(value)
            for key, value in said.items()
            if (key, value) not in (("is_null", True), ("template_ref", ""))
        }
    return said


def check(raw: bytes) -> None:
    for attempt in range(3):  # a pause of the machine is no finding
        start = thread_time()
        payload = decoded(raw)
        if thread_time() - start < SECONDS_MAX:
            break
        assert attempt < 2, "more than 50 ms"
    if payload is None:
        return
    try:
        again = encode(payload)
    except PayloadError:
        return  # read where it would not be written
    second = decode(again, types=TYPES)
    assert meaning(plain(second)) == meaning(plain(payload)), "encoded again it says something else"
    assert encode(second) == again, "the second encoding differs"


def main() -> None:
    corpus = Path(sys.argv[1])
    for number, raw in enumerate(EVERY):
        check(raw)
        (corpus / f"seed{number}").write_bytes(raw)
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

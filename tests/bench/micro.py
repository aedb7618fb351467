"""Nanoseconds per call of every hot function, compiled beside interpreted: ``python -m tests.bench.micro``."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.bench import micro_codec, micro_core, micro_sparkplug
from tests.bench.measuring import interpreted_copy, interpreted_modules
from tests.harness import REPO, gateway_root


def rows() -> list[tuple[str, float]]:
    return [*micro_codec.rows(), *micro_core.rows(), *micro_sparkplug.rows()]


CHILD: Final = "import json; from tests.bench.micro import rows; print(json.dumps(rows()))"


def rows_of(root: Path) -> list[tuple[str, float]]:
    """In a process of its own, with the gateway of that folder."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(REPO)]), "PYTHONSAFEPATH": "1"}
    done = subprocess.run([sys.executable, "-c", CHILD], env=env, check=True, capture_output=True, text=True)
    return [(name, ns) for name, ns in json.loads(done.stdout)]


def main() -> None:
    missing = interpreted_modules()
    with tempfile.TemporaryDirectory() as name:
        slow = rows_of(interpreted_copy(Path(name)))
    fast = slow if missing else rows_of(gateway_root())
    print(f"{'compiled':>10}{'interpreted':>13}  ns")
    for (name, ns), (_, interpreted) in zip(fast, slow, strict=True):
        print(f"{'-' if missing else format(ns, ',.0f'):>10}{interpreted:13,.0f}  {name}")
    if missing:
        print(f"not compiled: {', '.join(missing)}")


if __name__ == "__main__":
    main()

"""What queued messages cost in RAM by how many of them share a commit: a core without a disk, its client away.

``python -m tests.bench.commits COUNT`` prints one line of JSON: for each group size RSS in bytes with COUNT messages
queued, and what it grew by for each.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from gateway import process
from gateway.core.limits import Limits
from tests.bench.core_rig import Rig
from tests.harness import beside_env

GROUPS: Final = (1, 10, 100)
PAYLOAD: Final = bytes(200)


def rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def queue(count: int, group: int) -> dict[str, float]:
    """In this process: fill the queue."""
    limits = Limits()
    limits.store_bytes_max = 0
    rig = Rig(limits)
    rig.subscriber("collector", "plant/#", 1, True)
    rig.commit()
    rig.leave("collector")
    rig.commit()
    frames = rig.publisher("machine", b"plant/line", 1, PAYLOAD, group)
    process.settle()
    before = rss()
    for _ in range(count // group):
        rig.now += 1
        rig.feed("machine", frames)
        batch = rig.commit()
        assert batch is not None and batch.segment_id
    backlog = rig.router.core.sessions["collector"].backlog
    assert backlog is not None and backlog.count == count // group * group
    return {"rss": rss(), "each": (rss() - before) / count}


def measure(count: int) -> dict[str, dict[str, float]]:
    """Each group size in a process of its own."""
    found = {}
    for group in GROUPS:
        line = [sys.executable, "-m", "tests.bench.commits", str(count), str(group)]
        found[str(group)] = json.loads(
            subprocess.run(line, env=beside_env(), check=True, capture_output=True, text=True).stdout
        )
    return found


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(queue(int(sys.argv[1]), int(sys.argv[2]))))
    else:
        print(json.dumps(measure(int(sys.argv[1]))))

"""``python -m tests.bench.flashing [MIB]``: writing an image to a loop device, beside dd, in turns.

Both end with all of it flushed. Reading back, which dd does not do, is shown apart.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gateway.appliance.flash import flash
from gateway.appliance.unpack import Unpacked
from tests.loops import loop_device

MIB = 1 << 20
ROUNDS = 5


def dd_s(image: Path, device: Path) -> float:
    started = time.monotonic()
    subprocess.run(["dd", f"if={image}", f"of={device}", "bs=4M", "conv=fsync", "status=none"], check=True)
    return time.monotonic() - started


def main(mib: int) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        image, backing = Path(folder, "image"), Path(folder, "disk")
        with open("/dev/urandom", "rb") as source, image.open("wb") as out:
            for _ in range(mib):
                out.write(source.read(MIB))
        backing.write_bytes(b"")
        with backing.open("r+b") as file:
            for _ in range(mib + 16):
                file.write(bytes(MIB))
        theirs, ours, verify = [], [], []
        with loop_device(backing) as device:
            for _ in range(ROUNDS):
                theirs.append(dd_s(image, device))
                with Unpacked(image) as packed:
                    done = flash(packed, None, device, True, lambda *_: None)
                ours.append(done.write_s)
                verify.append(done.verify_s)
        dd, we, back = (mib / statistics.median(times) for times in (theirs, ours, verify))
        print(f"{mib} MiB, median of {ROUNDS}: dd {dd:.0f} MiB/s, flash {we:.0f} MiB/s ({we / dd:.2f} of dd),"
              f" read back and compared {back:.0f} MiB/s")  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 512)

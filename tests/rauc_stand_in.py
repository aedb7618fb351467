"""A program in the place of ``rauc install``, whose service needs a system bus: it does what RAUC does, in its order.

Everything else of rauc is asked of the real one.
"""

import configparser
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path


def put_on_path(folder: Path, root: Path) -> str:
    """A PATH with the stand-in first, for that root of an appliance; systemctl only notes what it is asked."""
    folder.mkdir()
    texts = {
        "rauc": f'#!/bin/sh\nexec {sys.executable} {Path(__file__).resolve()} {root} "$@"\n',
        "systemctl": f'#!/bin/sh\necho "$*" >> {root}/systemctl\n',
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(stat.S_IRWXU)
    return f"{folder}:{os.environ['PATH']}"


def main(root: Path, arguments: list[str]) -> int:
    real = next(path for path in os.environ["PATH"].split(":")[1:] if os.path.exists(f"{path}/rauc"))
    if "install" not in arguments:
        return subprocess.run([f"{real}/rauc", *arguments], check=False).returncode
    conf = configparser.ConfigParser()
    conf.read(arguments[0].removeprefix("--conf="))
    booted = re.search(r"^SLOT=(.)$", (root / "run/forebay-boot.env").read_text(), re.MULTILINE)
    assert booted is not None
    slot = next(conf[name] for name in conf if name.startswith("slot.") and conf[name]["bootname"] != booted[1])

    def backend(*words: str) -> None:
        line = [sys.executable, "-m", "gateway", "update", "backend", *words, "--root", str(root)]
        subprocess.run(line, check=True)

    print("  0% Installing")
    mount = root / "run/rauc/bundle"
    mount.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(mount, ignore_errors=True)
    subprocess.run([f"{real}/rauc", arguments[0], "extract", arguments[-1], mount], check=True, capture_output=True)
    backend("set-state", slot["bootname"], "bad")
    if (root / "stop-while-writing").exists():
        return 1
    print(" 50% Copying image to root.1")
    Path(slot["device"]).write_bytes((mount / "root.squashfs").read_bytes())
    backend("set-primary", slot["bootname"])
    shutil.rmtree(mount)
    print("100% Installing done.")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))

"""The session in the README, run as it is written but for the port and the folder."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.harness import REPO, free_port, gateway_root

WRAPPER = """#!/bin/sh
export PYTHONPATH={root} PYTHONSAFEPATH=1
command=$1; shift
case $command in
run) exec {python} -m gateway run --listen 127.0.0.1:{port} "$@" ;;
pub | sub) exec {python} -m gateway $command --port {port} "$@" ;;
*) exec {python} -m gateway $command "$@" ;;
esac
"""


def test_store_and_forward_as_written(tmp_path: Path) -> None:
    script = re.findall(r"^```sh\n(.*?)^```", (REPO / "README.md").read_text(), re.MULTILINE | re.DOTALL)[0]
    assert "kill -9 $BROKER" in script
    wrapper = tmp_path / ".venv" / "bin" / "forebay"
    wrapper.parent.mkdir(parents=True)
    root, python = shlex.quote(str(gateway_root())), shlex.quote(sys.executable)
    wrapper.write_text(WRAPPER.format(root=root, python=python, port=free_port()))
    wrapper.chmod(0o755)
    ended = subprocess.run(
        ["bash", "-e", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=150
    )
    lines = ended.stdout.splitlines()
    assert ended.returncode == 0, ended.stderr
    assert lines[-1000:] == [str(i) for i in range(1, 1001)], ended.stderr
    assert any(line.split()[:3] == ["collector", "away", "1000"] for line in lines[:-1000])


def test_the_two_commands_are_targets() -> None:
    readme, makefile = (REPO / "README.md").read_text(), (REPO / "Makefile").read_text()
    for target in re.findall(r"make ([a-z]+)", readme):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target

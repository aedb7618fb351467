"""Sparkplug libraries of others as edge nodes: each a process that gives births, data and deaths, then ends.

It reads a plan from its input: for ``birth`` and ``data`` a datatype and a value for each name, bytes in hex;
``rounds`` of data, each with a pause of ``pause_s`` behind it.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.system.drivers import HERE, alone, install_npm

ROOT: Final = Path(__file__).resolve().parents[2]


class Peer(NamedTuple):
    """``node``: its edge node id. ``folder``: where its libraries are, below build/peers; empty for npm."""

    node: str
    program: str
    folder: str


PEERS: Final = (
    Peer("pysparkplug", "sparkplug_pysparkplug.py", "pysparkplug"),
    Peer("wrapper", "sparkplug_wrapper.py", "tahu"),
    Peer("tahu", "sparkplug_tahu.py", "tahu"),
    Peer("npm", "sparkplug_client.mjs", ""),
)


def missing(peer: Peer) -> str:
    """Why this peer cannot run here, empty when it can; what is not there yet is installed."""
    if not peer.folder:
        return install_npm("sparkplug-client")
    with alone(ROOT / "build" / "peers"):
        return _install(peer)


def _install(peer: Peer) -> str:
    target, pins = ROOT / "build" / "peers" / peer.folder, ROOT / "requirements" / f"peer-{peer.folder}.txt"
    stamp = target.with_suffix(".txt")
    if stamp.is_file() and stamp.read_bytes() == pins.read_bytes():
        return ""
    shutil.rmtree(target, ignore_errors=True)
    line = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--target", str(target)]
    try:
        done = subprocess.run([*line, "-r", str(pins)], capture_output=True, text=True, check=False, timeout=150)
    except subprocess.TimeoutExpired:
        return f"to install {pins.name} takes too long"
    if done.returncode:
        return f"{pins.name} cannot be installed: {done.stderr.strip()[-200:]}"
    shutil.copy(pins, stamp)
    return ""


def start(peer: Peer, port: int, plan: dict[str, Any]) -> "subprocess.Popen[str]":
    """Its process, with the plan told."""
    program = str(HERE / "clients" / peer.program)
    # its protobuf and paho, not ours
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "build" / "peers" / peer.folder), "PYTHONWARNINGS": "ignore"}
    line = [sys.executable, program, str(port)] if peer.folder else ["node", program, str(port)]
    process = subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(plan))
    process.stdin.close()
    process.stdin = None  # communicate() would flush it
    return process


def run(peer: Peer, port: int, plan: dict[str, Any]) -> None:
    """Run it to its end, which must be a good one."""
    with start(peer, port, plan) as process:
        try:
            said, _ = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 0, said

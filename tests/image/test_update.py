"""Updates of a real image in QEMU: by systemd-boot, RAUC and the units, with a client of the gateway outside.

``FOREBAY_IMAGE`` names the output folder of ``forebay image build`` for an x86-64 board, ``FOREBAY_UPDATE_ROUNDS`` how
often each way back is gone (5), ``FOREBAY_UPDATE_CUTS`` at how many moments of an installation the power goes (10).
"""

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Final

import pytest

from tests.image.appliance import STICK, Appliance, appliance
from tests.image.bundles import GOOD, Bundles
from tests.image.machine import unpack

BUILT: Final = os.environ.get("FOREBAY_IMAGE", "")
ROUNDS: Final = int(os.environ.get("FOREBAY_UPDATE_ROUNDS", "5"))
CUTS: Final = int(os.environ.get("FOREBAY_UPDATE_CUTS", "10"))
TOUCHED: Final = "head -c 32M /dev/vda3 | cksum; find /boot -type f | sort | xargs cksum"  # by an installation
REFUSED: Final = {
    "alien": "signature verification failed",
    "tampered": "its payload is not what was signed",
    "board": "for the board forebay-rpi",
    "old": "cannot read the data that are here",
    "one-way": "no way back, which --no-rollback accepts",
}
# a web server on the appliance itself, without and with TLS
SERVER: Final = f"""
import functools, http.server, ssl, sys
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory="{STICK}")
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), handler)
if len(sys.argv) > 2:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[2])
    server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""
CERTIFICATE: Final = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 400 -subj /CN=127.0.0.1"
    " -addext subjectAltName=IP:127.0.0.1 -keyout /run/web.key -out /run/web.crt 2>/dev/null"
    " && cat /run/web.key /run/web.crt >/run/web.pem"
)

pytestmark = [
    pytest.mark.skipif(not BUILT, reason="FOREBAY_IMAGE names no built image (make image TASK=update-test)"),
    pytest.mark.timeout(4 * 3600),
]


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Bundles:
    return Bundles(tmp_path_factory.mktemp("bundles"), Path(BUILT))


@pytest.fixture(scope="module")
def stick(bundles: Bundles) -> Path:
    return bundles.stick()


def serve(box: Appliance) -> None:
    box.mount_stick()
    box.ok(f"cat >/run/web.py <<'END'\n{SERVER}END\n")
    box.ok(CERTIFICATE)
    box.ok("systemd-run -q --unit=web python3 /run/web.py 8000; systemd-run -q --unit=webs python3 /run/web.py 8001 "
           "/run/web.pem; for port in 8000 8001; do until python3 -c \"import socket; socket.create_connection(("
           "'127.0.0.1', $port))\" 2>/dev/null; do sleep 1; done; done")  # fmt: skip


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def test_a_good_one_stays_and_goes_on_request(tmp_path: Path, bundles: Bundles, stick: Path) -> None:
    """Those that must be refused write nothing; then one from a stick, the way back, and one from a web server.

    What comes while the new version runs is there in the old one too: data are never taken back.
    """
    with appliance(tmp_path / "vm", bundles, stick) as box:
        box.start()
        box.fill(200)
        first = box.status()
        assert (first["slot"], first["on_trial"], first["ended"]) == ("a", False, [])
        assert "nothing that boots (slot b)" in box.ok("forebay update status")
        box.mount_stick()
        before = box.ok(TOUCHED)
        for name, said in REFUSED.items():
            assert said in box.refused(f"install {STICK}/{name}.raucb")
        done = box.run(f"forebay update check {STICK}/board.raucb")
        assert done.code == 1 and REFUSED["board"] in done.out
        assert "version 99.0.0; this system runs 0.1.0" in box.ok(f"forebay update check {STICK}/{GOOD}")
        assert "version 99.0.0" in box.ok(f"forebay update check {STICK}")
        box.ok(f"umount {STICK}")
        assert "version 99.0.0" in box.ok("forebay update check")
        assert box.ok(TOUCHED) == before
        box.ok("forebay update install")  # from the stick, the highest version for this board
        assert "99.0.0 is tried at the next boot" in box.ok("forebay update status")
        found = box.boots_into("b")
        assert (found["pending"], found["ended"][-1]["outcome"], found["on_trial"]) == (None, "confirmed", False)
        assert "99.0.0: confirmed: healthy" in box.ok("forebay update status")
        box.fill(100)
        found = box.boots_into("a", "forebay update rollback --reboot")
        assert found["ended"][-1]["reason"] == "by request"
        box.drain()
        from_the_web(box)
        found = box.boots_into("b")
        assert found["ended"][-1]["outcome"] == "confirmed"
        assert box.ok("ls /data/appliance/update").split() == ["rauc.status", "state.json"]
        box.drain()


def from_the_web(box: Appliance) -> None:
    serve(box)
    told = json.loads(box.ok("forebay update check --json http://127.0.0.1:8000/"))
    assert (told["version"], told["refused"]) == ("99.0.0", "")
    assert "404" in box.refused("check http://127.0.0.1:8000/none.raucb")
    assert "certificate verify failed" in box.refused("install https://127.0.0.1:8001/")
    assert REFUSED["tampered"] in box.refused("install http://127.0.0.1:8000/tampered.raucb")
    box.ok("forebay update install http://127.0.0.1:8000/")
    box.ok(f"SSL_CERT_FILE=/run/web.crt forebay update install https://127.0.0.1:8001/{GOOD}")


@pytest.mark.parametrize(
    ("bundle", "version", "said"),
    [("unhealthy", "98.0.0", "cannot write to /var/lib/forebay"), ("dead", "95.0.0", "did not come up")],
)
def test_the_way_back(tmp_path: Path, bundles: Bundles, stick: Path, bundle: str, version: str, said: str) -> None:
    """By itself, with the reason, and with the queue as it was."""
    with appliance(tmp_path / "vm", bundles, stick) as box:
        box.start()
        for _ in range(ROUNDS):
            box.fill(200)
            comes_back(box, bundle, version, said)
            box.drain()


def comes_back(box: Appliance, bundle: str, version: str, said: str) -> None:
    box.install(f"{bundle}.raucb")
    assert box.status()["boots_next"] == "b"
    found = box.boots_into("a")
    last = found["ended"][-1]
    assert (last["version"], last["outcome"]) == (version, "rolled back")
    assert said in last["reason"]
    assert found["boots_next"] == "a"
    assert f"{version}: rolled back: {last['reason']}" in box.ok("forebay update status")


def test_the_way_back_from_other_troubles(tmp_path: Path, bundles: Bundles, stick: Path) -> None:
    """Broker or system not started, a kernel that panics, a program that cannot be loaded, a kernel that is none."""
    with appliance(tmp_path / "vm", bundles, stick) as box:
        box.start()
        box.fill(200)
        comes_back(box, "masked", "97.0.0", "does not run")
        comes_back(box, "emergency", "88.0.0", "emergency mode")
        comes_back(box, "panic", "94.0.0", "did not come up")
        comes_back(box, "hollow", "96.0.0", "could not be confirmed: ModuleNotFoundError")
        box.mount_stick()
        assert "no kernel for x86_64" in box.refused(f"install {STICK}/kernel.raucb")
        assert box.status()["ended"][-1]["outcome"] == "not installed"
        assert box.boots_into("a")["slot"] == "a"
        box.drain()
        # there is no way back from this one, by request
        box.install("one-way.raucb", "--no-rollback")
        found = box.boots_into("b")
        last = found["ended"][-1]
        assert (last["version"], last["outcome"], found["on_trial"]) == ("92.0.0", "kept, though unhealthy", False)
        assert "does not run" in last["reason"]
        assert box.boots_into("a", "forebay update rollback --reboot")["slot"] == "a"
        box.drain()


def test_the_power_goes_while_it_is_written(tmp_path: Path, bundles: Bundles, stick: Path) -> None:
    """At moments spread over an installation: the system of before starts, with the queue as it was."""
    with appliance(tmp_path / "vm", bundles, stick) as box:
        box.start()
        box.fill(200)
        box.status()
        box.mount_stick()
        began = time.monotonic()
        box.install(GOOD)
        whole = time.monotonic() - began
        seen = set()
        for cut in range(CUTS):
            box.agent.start(f"forebay update install {STICK}/{GOOD} >/dev/console 2>&1")
            time.sleep(whole * (cut + 0.5) / CUTS)
            box.stop()
            box.start()
            box.fill(1)
            found = box.status()
            assert found["pending"] is None, found
            # so late, or so early, that all of it was there, the new one may be what started
            assert found["slot"] == "a" or found["ended"][-1]["outcome"] == "confirmed", found
            seen |= {row["reason"] for row in found["ended"]}
            if found["slot"] == "b":
                assert box.boots_into("a", "forebay update rollback --reboot")["slot"] == "a"
            box.mount_stick()
        assert "the installation was cut short" in seen
        box.drain()


def test_a_second_disk_with_the_same_labels_is_never_touched(tmp_path: Path, bundles: Bundles, stick: Path) -> None:
    """Another one flashed with the same image."""
    (image,) = Path(BUILT).glob("*.img.zst")
    second = tmp_path / "second.img"
    with appliance(tmp_path / "vm", bundles, stick) as box:
        box.start()
        box.fill(200)
        box.status()
        box.shut_down()
        unpack(image, second)
        before = digest(second)
        box.vm.extra += ["-drive", f"if=none,id=second,format=raw,file={second}"]
        box.vm.extra += ["-device", "virtio-blk-pci,drive=second"]
        box.start()
        assert box.ok("lsblk -ndo NAME | grep -c ^vd").strip() == "2"
        box.install(GOOD)
        assert box.boots_into("b")["ended"][-1]["outcome"] == "confirmed"
        box.drain()
    assert digest(second) == before

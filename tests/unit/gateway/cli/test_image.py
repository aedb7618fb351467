import json
from pathlib import Path

from gateway.image.manifest import describe
from gateway.image.plan import read_plan
from gateway.image.signing import open_signing, sign
from tests.command import Forebay

TOP = Path(__file__).parents[4]


def test_the_group_is_there(forebay: Forebay) -> None:
    result = forebay("image", "--help")
    assert result.code == 0
    for name in ("build", "verify", "flash"):
        assert name in result.out


def test_an_unknown_board_is_answered_with_the_known_ones(forebay: Forebay, tmp_path: Path) -> None:
    result = forebay("image", "build", "--board", "toaster", "--deb", "x", "--tree", str(TOP), "--out", str(tmp_path))
    assert result.code == 2
    assert result.err == "forebay: --board toaster: expected one of arm64, rpi, x86-64\n"


def test_no_package(forebay: Forebay, tmp_path: Path) -> None:
    result = forebay("image", "build", "--board", "rpi", "--deb", "x.deb", "--tree", str(TOP), "--out", str(tmp_path))
    assert result.code == 2
    assert result.err == "forebay: --deb x.deb: expected a .deb file\n"


def test_verify(forebay: Forebay, tmp_path: Path) -> None:
    image = tmp_path / "f-1-rpi.img"
    image.write_bytes(b"disk")
    signing = open_signing(tmp_path / "signing")
    manifest = tmp_path / "f-1-rpi.manifest.json"
    manifest.write_text(describe(read_plan(TOP / "images", "rpi"), "1", 7, image, []))
    sign(signing, manifest, tmp_path / "f-1-rpi.manifest.sig")
    good = forebay("image", "verify", str(image), "--ca", str(signing.authority))
    assert (good.code, good.out) == (0, f"{image}: as it was signed: Forebay 1 for rpi\n")
    told = forebay("image", "verify", str(image), "--ca", str(signing.authority), "--json")
    assert json.loads(told.out)["board"] == "rpi"
    image.write_bytes(b"disc")
    bad = forebay("image", "verify", str(image), "--ca", str(signing.authority))
    assert bad.code == 1
    assert bad.err.startswith(f"forebay: {image}: not what was signed")

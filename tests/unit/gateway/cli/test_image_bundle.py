from pathlib import Path

from gateway import __version__
from gateway.appliance.bundle import read_bundle
from gateway.store.migrations import SCHEMA
from tests.command import Forebay
from tests.signed import needs_rauc
from tests.unit.gateway.image.test_bundling import built

TREE = str(Path(__file__).parents[4])


@needs_rauc
def test_after_a_build(forebay: Forebay, tmp_path: Path) -> None:
    built(tmp_path / "out" / "x86-64")
    code, out, err = forebay("image", "bundle", "--board", "x86-64", "--out", str(tmp_path / "out"), "--tree", TREE)
    assert code == 0, err
    bundle = tmp_path / f"out/x86-64/forebay-{__version__}-x86-64.raucb"
    assert out == f"{bundle}\n"
    holds = read_bundle(bundle, (f"--keyring={tmp_path}/out/signing/ca.crt",)).holds
    assert (holds.version, holds.schema) == (__version__, SCHEMA)


def test_bad_input_is_one_line(forebay: Forebay, tmp_path: Path) -> None:
    for board, wanted, said in (("x86-64", 1, "squashfs: not there"), ("none", 2, "--board none: expected one of")):
        code, _, err = forebay("image", "bundle", "--board", board, "--out", str(tmp_path / "out"), "--tree", TREE)
        assert code == wanted and said in err and err.count("\n") == 1

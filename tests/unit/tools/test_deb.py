import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[3] / "tools/deb.py"
needs_dpkg = pytest.mark.skipif(shutil.which("dpkg") is None, reason="a Debian package is made on Debian")


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("deb", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def own_architecture() -> str:
    return subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()


@needs_dpkg
def test_this_machine_compiles_for_itself_as_it_is() -> None:
    assert script()._target(own_architecture(), sys.executable) == (own_architecture(), {}, ())


@needs_dpkg
def test_a_compiler_that_is_missing_is_named_before_anything_is_fetched(tmp_path: Path) -> None:
    for name in ("dpkg", "git"):
        (tmp_path / name).symlink_to(shutil.which(name) or f"/usr/bin/{name}")
    other = next(name for name in script().MACHINES if name != own_architecture())
    done = subprocess.run(
        [sys.executable, SCRIPT, "--architecture", other, "--python", sys.executable],
        env={"PATH": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert "-linux-gnu-gcc: not found here: expected the packages: apt-get install gcc-" in done.stderr
    assert f"libc6-dev-{other}-cross" in done.stderr


@needs_dpkg
def test_another_machine_is_told_to_compiler_and_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = script()
    other = next(name for name in module.MACHINES if name != own_architecture())
    machine = module.MACHINES[other]
    compiler = tmp_path / f"{machine}-linux-gnu-gcc"
    compiler.touch(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(module, "WORK", tmp_path)
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    unpacked = tmp_path / "cross" / f"{other}-{version}"
    settings = unpacked / f"usr/lib/python{version}/_sysconfigdata__{machine}-linux-gnu.py"
    settings.parent.mkdir(parents=True)
    settings.write_text("build_time_vars = {}\n")
    target = module._target(other, sys.executable)
    folder = Path(target.env["PYTHONPATH"])
    assert [path.name for path in folder.iterdir()] == [settings.name]  # nothing else of that machine's Python
    assert target.env["_PYTHON_SYSCONFIGDATA_NAME"] == settings.stem
    assert target.env["_PYTHON_HOST_PLATFORM"] == f"linux-{machine}"
    assert f"-I{unpacked}/usr/include/python{version}" in target.env["CFLAGS"].split()
    assert f"--platform=manylinux_2_28_{machine}" in target.wheels
    assert f"--abi=cp{version.replace('.', '')}" in target.wheels

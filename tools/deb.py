"""Makes a Debian package of Forebay: /opt/forebay with all it needs, compiled, pinned and hashed; its units and user.

    python3 tools/deb.py [--output DIR] [--version VERSION] [--architecture arm64]
    python3 tools/deb.py --builder          only the environment that it is built in

Needs Debian's python3 (3.11 or newer) with venv and headers, gcc and dpkg-deb; for another architecture than this
machine's Debian's cross compiler. Two builds of the same tree are byte for byte the same. The last line of the output
is its path.
"""

import argparse
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
WORK: Final = ROOT / "build" / "deb"
PREFIX: Final = Path("opt/forebay")
PARTS: Final = ("gateway", "sparkplug", "firmware_profiles", "systemd", "pyproject.toml", "README.md", "LICENSE")
PINS: Final = ROOT / "requirements" / "deb.txt"
BUILD_PINS: Final = ROOT / "requirements" / "run.txt"
SCRIPTS: Final = ROOT / "images" / "deb"
MAINTAINER: Final = "Forebay <forebay@localhost>"
MACHINES: Final = {"amd64": "x86_64", "arm64": "aarch64"}  # as Debian and as Python call them
GLIBC: Final = range(36, 16, -1)  # minor versions that a wheel for Debian 12 may ask for


class Target(NamedTuple):
    """What the package is for. ``env``: of the compiler, ``wheels``: options of pip, both empty for this machine."""

    architecture: str
    env: Mapping[str, str]
    wheels: Sequence[str]


ENTRY: Final = """#!/opt/forebay/bin/python3 -I
import os

from gateway.cli.main import main

os.environ.setdefault("FOREBAY_CONFIG", "/etc/forebay/forebay.toml")
main()
"""


def main() -> None:
    asked = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    asked.add_argument("--output", type=Path, default=WORK)
    asked.add_argument("--version", default="", help="instead of the one of the sources")
    asked.add_argument("--python", default="/usr/bin/python3", help="Debian's, which the package will run on")
    asked.add_argument("--architecture", choices=tuple(MACHINES), default=run("dpkg", "--print-architecture").strip())
    asked.add_argument(
        "--builder", action="store_true", help="print the path of the builder's Python, and build nothing"
    )
    options = asked.parse_args()
    os.umask(0o022)
    WORK.mkdir(parents=True, exist_ok=True)
    if options.builder:
        print(_builder(options.python), flush=True)
        return
    target = _target(options.architecture, options.python)
    python = _builder(options.python)
    tree = WORK / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    _environment(tree, options.python, python, _wheel(python, target), target)
    _units(tree)
    _manual(tree, python)
    version = options.version or _version()
    print(_package(tree, options.python, version, options.output, target), flush=True)


def run(*command: str | Path, env: Mapping[str, str] | None = None, cwd: Path = ROOT) -> str:
    """What it prints; its errors go to stderr, and a failure ends all."""
    done = subprocess.run(
        [str(word) for word in command], env=env, cwd=cwd, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"deb: {' '.join(str(word) for word in command[:6])} ...: exit status {done.returncode}")
    return done.stdout


def _builder(python: str) -> Path:
    """An environment with what building wants, by its own pins; made once."""
    folder = WORK / "builder"
    stamp = folder / "pins"
    if not stamp.exists() or stamp.read_bytes() != BUILD_PINS.read_bytes():
        shutil.rmtree(folder, ignore_errors=True)
        run(python, "-m", "venv", folder)
        run(
            folder / "bin/python",
            "-m",
            "pip",
            "-q",
            "--disable-pip-version-check",
            "install",
            "--require-hashes",
            "-r",
            BUILD_PINS,
        )
        shutil.copyfile(BUILD_PINS, stamp)
    return folder / "bin/python"


def _target(architecture: str, debian: str) -> Target:
    """This machine, or another: Python compiles for that when it is told its name and how its own Python was built.

    That, and the headers, come from Debian's packages.
    """
    if run("dpkg", "--print-architecture").strip() == architecture:
        return Target(architecture, {}, ())
    machine, version = MACHINES[architecture], _version_of(debian)
    compiler = f"{machine}-linux-gnu-gcc"
    if shutil.which(compiler) is None:
        packages = f"gcc-{machine.replace('_', '-')}-linux-gnu libc6-dev-{architecture}-cross"
        sys.exit(f"deb: {compiler}: not found here: expected the packages: apt-get install {packages}")
    root = WORK / "cross" / f"{architecture}-{version}"
    settings = root / f"usr/lib/python{version}" / f"_sysconfigdata__{machine}-linux-gnu.py"
    if not settings.exists():
        _unpack_headers(architecture, version, root)
    apart = root / "settings"  # by itself: beside it is that machine's standard library
    apart.mkdir(exist_ok=True)
    shutil.copyfile(settings, apart / settings.name)
    env = {
        "PYTHONPATH": str(apart),
        "_PYTHON_SYSCONFIGDATA_NAME": settings.stem,
        "_PYTHON_HOST_PLATFORM": f"linux-{machine}",
        "CFLAGS": f"-I{root}/usr/include/python{version} -I{root}/usr/include",
    }
    names = [f"manylinux_2_{minor}" for minor in GLIBC] + ["manylinux2014", "linux"]
    wheels = ["--only-binary=:all:", f"--python-version={version}", "--implementation=cp"]
    wheels += [f"--abi={abi}" for abi in ("cp" + version.replace(".", ""), "abi3", "none")]
    return Target(architecture, env, [*wheels, *(f"--platform={name}_{machine}" for name in names)])


def _unpack_headers(architecture: str, version: str, root: Path) -> None:
    """By an apt of its own, so that this machine's stays as it is: it need not know the other architecture."""
    apt = root.with_name(root.name + ".apt")
    shutil.rmtree(root, ignore_errors=True)
    for folder in ("state/lists/partial", "cache/archives/partial", "packages"):
        (apt / folder).mkdir(parents=True, exist_ok=True)
    (apt / "status").write_text("")
    options = [f"APT::Architecture={architecture}", f"APT::Architectures={architecture}", f"Dir::State={apt}/state"]
    options += [f"Dir::State::status={apt}/status", f"Dir::Cache={apt}/cache", "APT::Sandbox::User=root"]
    get = ["apt-get", "-qq", *(word for option in options for word in ("-o", option))]
    run(*get, "update")
    packages = [f"libpython{version}-{part}" for part in ("dev", "minimal", "stdlib")]
    run(*get, "download", *packages, cwd=apt / "packages")
    for package in sorted((apt / "packages").glob("*.deb")):
        run("dpkg-deb", "-x", package, root)
    shutil.rmtree(apt)


def _version_of(debian: str) -> str:
    return run(debian, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()


def _sources() -> Iterator[Path]:
    for part in PARTS:
        path = ROOT / part
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and "__pycache__" not in file.parts and file.suffix not in (".so", ".pyc"):
                yield file


def _wheel(python: Path, target: Target) -> Path:
    """The compiled package; again only when the sources have changed."""
    digest = hashlib.sha256(run(python, "-VV").encode())
    for file in _sources():
        digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes() + b"\0")
    kept = WORK / "wheel" / target.architecture
    folder = kept / digest.hexdigest()[:16]
    if not list(folder.glob("*.whl")):
        source = WORK / "source"
        shutil.rmtree(source, ignore_errors=True)
        for file in _sources():
            copy = source / file.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
        # one path for all builds: what is compiled says where it came from
        env = {**os.environ, "HATCH_BUILD_HOOKS_ENABLE": "1", "SOURCE_DATE_EPOCH": _epoch(), "PYTHONHASHSEED": "0"}
        flags = f"-g0 -ffile-prefix-map={source}=/forebay {target.env.get('CFLAGS', '')}"
        env |= target.env | {"CFLAGS": flags, "LDFLAGS": "-Wl,--build-id=none -s"}
        print("compiling (two minutes) ...", file=sys.stderr, flush=True)
        shutil.rmtree(kept, ignore_errors=True)
        pip = (python, "-m", "pip", "-q", "--disable-pip-version-check")
        run(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, source, env=env)
    return next(folder.glob("*.whl"))


def _environment(tree: Path, debian: str, python: Path, wheel: Path, target: Target) -> None:
    """The folder /opt/forebay: a virtual environment without pip."""
    home = tree / PREFIX
    version = _version_of(debian)
    site = home / "lib" / f"python{version}" / "site-packages"
    (home / "bin").mkdir(parents=True)
    site.mkdir(parents=True)
    pip = (
        python,
        "-m",
        "pip",
        "-q",
        "--disable-pip-version-check",
        "install",
        "--no-compile",
        "--no-deps",
        "--target",
        site,
        *target.wheels,
    )
    run(*pip, "--no-build-isolation", "--require-hashes", "-r", PINS)
    shutil.rmtree(site / "bin", ignore_errors=True)  # they name the machine that built them
    run(*pip, wheel)
    shutil.rmtree(site / "bin")
    shutil.rmtree(site / "tests", ignore_errors=True)  # of gmqtt
    for folder in list(site.rglob("__pycache__")):
        shutil.rmtree(folder)
    for record in site.glob("*.dist-info/RECORD"):
        (record.parent / "direct_url.json").unlink(missing_ok=True)
        lines = record.read_text().splitlines()
        kept = sorted(line for line in lines if not re.search(r"direct_url\.json|^\.\./|^bin/|\.pyc,|^tests/", line))
        record.write_text("\n".join(kept) + "\n")
    (home / "pyvenv.cfg").write_text(f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {version}\n")
    (home / "bin/python3").symlink_to(f"/usr/bin/python{version}")
    (home / "bin/python").symlink_to("python3")
    _write(home / "bin/forebay", ENTRY, 0o755)
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "usr/bin/forebay").symlink_to("/opt/forebay/bin/forebay")
    line = (debian, "-m", "compileall", "-q", "-j", "1", "--invalidation-mode", "unchecked-hash")
    run(*line, "-s", str(tree), "-p", "/", home / "lib", env={**os.environ, "PYTHONHASHSEED": "0"})


def _units(tree: Path) -> None:
    systemd = ROOT / "systemd"
    for file in sorted(systemd.glob("forebay*.*")):
        _write(tree / "lib/systemd/system" / file.name, file.read_text())
    for kind in ("sysusers.d", "tmpfiles.d"):
        _write(tree / "usr/lib" / kind / "forebay.conf", (systemd / kind / "forebay.conf").read_text())
    for page in sorted((ROOT / "docs").glob("*.md")):
        _write(tree / "usr/share/doc/forebay" / page.name, page.read_text())
    _write(tree / "usr/share/doc/forebay/copyright", (ROOT / "LICENSE").read_text())


def _manual(tree: Path, python: Path) -> None:
    """The manual page, as the commands have it: by the interpreter that builds, since the package's may be foreign."""
    env = {**os.environ, "SOURCE_DATE_EPOCH": _epoch(), "PYTHONPATH": str(ROOT)}
    made = run(python, "-B", "-m", "gateway.cli.manual", env=env)
    page = tree / "usr/share/man/man1/forebay.1.gz"
    page.parent.mkdir(parents=True)
    page.write_bytes(gzip.compress(made.encode(), 9, mtime=0))
    page.chmod(0o644)


def _package(tree: Path, debian: str, version: str, output: Path, target: Target) -> Path:
    python = run(debian, "-c", "import sys; print('%d.%d %d.%d' % (*sys.version_info[:2], 3, sys.version_info[1] + 1))")
    at_least, below = python.split()
    files = sorted(path for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    control = tree / "DEBIAN"
    installed = sum(path.stat().st_size for path in files) // 1024
    _write(
        control / "control",
        f"Package: forebay\nVersion: {version}\nArchitecture: {target.architecture}\nMaintainer: {MAINTAINER}\n"
        f"Installed-Size: {installed}\nSection: net\nPriority: optional\n"
        f"Depends: python3 (>= {at_least}), python3 (<< {below}), python{at_least}, systemd, init-system-helpers,"
        " debconf (>= 0.5) | debconf-2.0\n"
        "Description: MQTT gateway that keeps what it acknowledges\n"
        " Takes MQTT messages from machines, stores them and hands them on to collectors.\n",
    )
    sums = (f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(tree)}\n" for path in files)
    _write(control / "md5sums", "".join(sums))
    for script in ("config", "postinst", "prerm", "postrm"):
        _write(control / script, (SCRIPTS / script).read_text(), 0o755)
    _write(control / "templates", (SCRIPTS / "templates").read_text())
    epoch = int(_epoch())
    for path in (tree, *tree.rglob("*")):
        os.utime(path, (epoch, epoch), follow_symlinks=False)
    output.mkdir(parents=True, exist_ok=True)
    package = (output / f"forebay_{version}_{target.architecture}.deb").resolve()
    env = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    run("dpkg-deb", "--root-owner-group", "-Zzstd", "-z12", "--threads-max=1", "--build", tree, package, env=env)
    return package


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def _version() -> str:
    found = re.search(r'"(.+)"', (ROOT / "gateway/__init__.py").read_text())
    assert found is not None
    return found[1]


def _epoch() -> str:
    """When the last commit was made, unless the environment says when it is."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return os.environ["SOURCE_DATE_EPOCH"]
    done = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "0"


if __name__ == "__main__":
    main()

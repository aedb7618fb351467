import os
from pathlib import Path

import pytest

from gateway.image.foreign import allow
from gateway.image.plan import ARCHITECTURES, BuildError, Plan, read_plan

IMAGES = Path(__file__).parents[4] / "images"
RULE = b":qemu-test:M::\\x7fELF:\\xff:/usr/bin/qemu:OPF"


def plans() -> tuple[Plan, Plan]:
    """Of this machine's architecture, and of another one."""
    found = [read_plan(IMAGES, "x86-64"), read_plan(IMAGES, "arm64")]
    found.sort(key=lambda plan: plan.machine != os.uname().machine)
    return found[0], found[1]


def test_its_own_programs_need_nothing(tmp_path: Path) -> None:
    own = plans()[0]
    if os.uname().machine in ARCHITECTURES.values():
        allow(own, tmp_path / "no", tmp_path / "no")


def test_the_rule_of_qemu_is_put_in_force_once(tmp_path: Path) -> None:
    plan = plans()[1]
    name = f"qemu-{plan.machine}"
    (tmp_path / f"{name}.conf").write_bytes(RULE + b"\n")
    (tmp_path / "register").touch()
    allow(plan, tmp_path, tmp_path)
    assert (tmp_path / "register").read_bytes() == RULE
    (tmp_path / "register").write_bytes(b"")
    (tmp_path / name).touch()
    allow(plan, tmp_path, tmp_path)
    assert (tmp_path / "register").read_bytes() == b""


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    plan = plans()[1]
    with pytest.raises(BuildError, match=r"qemu-\w+\.conf: not there: .*apt-get install qemu-user-static arch-test"):
        allow(plan, tmp_path, tmp_path)
    (tmp_path / f"qemu-{plan.machine}.conf").write_bytes(RULE)
    with pytest.raises(BuildError, match="mount failed"):
        allow(plan, tmp_path / "no/folder", tmp_path)
    (tmp_path / "register").mkdir()
    with pytest.raises(BuildError, match=f"register: .*: {plan.arch} programs cannot be run here"):
        allow(plan, tmp_path, tmp_path)

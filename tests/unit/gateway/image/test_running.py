import os

import pytest

from gateway.image.plan import BuildError
from gateway.image.running import environment, require, run


def test_a_program_sees_only_what_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    out = run(["env"], environment(7, {"INITRD": "No"})).decode()
    assert "SOURCE_DATE_EPOCH=7\n" in out
    assert "INITRD=No\n" in out
    assert "SECRET" not in out


def test_failures_say_what_the_program_said() -> None:
    with pytest.raises(BuildError, match=r"sh failed \(3\): too bad"):
        run(["sh", "-c", "echo too bad >&2; exit 3"], environment(0))
    with pytest.raises(BuildError, match="/no/such: cannot be started: No such file"):
        run(["/no/such"], environment(0))


def test_input_and_output() -> None:
    assert run(["cat"], environment(0), b"abc") == b"abc"


def test_what_is_missing_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.image.running.PATH", "/nowhere")
    with pytest.raises(BuildError, match=r"mksquashfs: not found here: .*apt-get install squashfs-tools"):
        require(["mksquashfs"])
    monkeypatch.undo()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(BuildError, match="needs root"):
        require([])

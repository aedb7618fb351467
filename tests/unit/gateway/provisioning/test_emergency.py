from pathlib import Path

from gateway.provisioning.emergency import AGAIN_S, reason, screen, show, stay


def test_the_reason_names_what_failed() -> None:
    assert reason([]) == "emergency mode"
    assert reason(["data.mount", "var.mount"]) == "emergency mode: data.mount, var.mount failed"


def test_all_consoles_say_why_and_what_follows(tmp_path: Path) -> None:
    (tmp_path / "active").write_text("tty0 ttyS0 ttyS1\n")
    devices = tmp_path / "dev"
    devices.mkdir()
    for name in ("tty0", "ttyS1"):  # one is not there
        (devices / name).touch()
    text = screen("emergency mode: data.mount failed", ["no such device"], 10)
    show(text, tmp_path / "active", devices)
    for name in ("tty0", "ttyS1"):
        assert (devices / name).read_bytes().decode() == text
    assert "data.mount failed\r\n  no such device\r\n" in text
    assert "in 10 minutes" in text


def test_it_starts_again_whatever_happens() -> None:
    did: list[object] = []
    shown: list[str] = []
    stay(shown.append, lambda why: did.append(why.partition(":")[0]), lambda: did.append("reboot"), did.append)
    assert did == ["emergency mode", AGAIN_S, "reboot"]
    assert "Forebay cannot start: emergency mode" in shown[0]

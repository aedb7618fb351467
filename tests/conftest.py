"""Says which build is under test and makes sure of it."""

import importlib
import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

EXPECT = os.environ.get("FOREBAY_EXPECT", "")

# A busy machine is no finding.
settings.register_profile("forebay", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("forebay")


def _is_compiled(name: str) -> bool:
    return str(importlib.import_module(name).__file__).endswith(".so")


def pytest_report_header() -> str:
    import gateway.mqtt.packets as packets

    kind = "compiled" if _is_compiled("gateway.mqtt.packets") else "interpreted"
    return f"forebay: {kind}, from {Path(str(packets.__file__)).parent.parent}"


def pytest_configure(config: pytest.Config) -> None:
    """A run that was asked for one build must not quietly test the other."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a background job's; what tests start would inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not EXPECT:
        return
    import gateway

    root = Path(str(gateway.__file__)).parent
    modules = [
        f"gateway.{path.parent.name}.{path.stem}" for part in ("mqtt", "core") for path in (root / part).glob("*.py")
    ]
    modules += ["gateway.net.connection", "sparkplug.scan"]
    wrong = [
        name for name in modules if not name.endswith("__init__") and _is_compiled(name) is not (EXPECT == "compiled")
    ]
    if wrong:
        raise pytest.UsageError(f"expected everything {EXPECT}, but these are not: {', '.join(wrong)}")

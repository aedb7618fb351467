from pathlib import Path

import pytest

from gateway.cli.control import RefusedError
from gateway.cli.telling import tell_broker
from gateway.settings.table import Sources, load
from tests.harness import Broker
from tests.wire import Wire


def test_a_running_broker_takes_changes_over(tmp_path: Path) -> None:
    settings = load(Sources(options=(("data_dir", str(tmp_path / "data")),)), {})
    tell_broker(settings)  # there is none
    with Broker(tmp_path / "data") as broker:
        access = tmp_path / "data" / "access.toml"
        access.write_text('bans = [{ client_id = "bad" }]')
        with Wire.connect(broker.port, "bad", version=5) as wire:
            tell_broker(settings)
            wire.expect(14, code=0x8A)
        Wire.connect(broker.port, "bad", version=5, code=0x8A).close()
        access.write_text("bans = [")
        with pytest.raises(RefusedError, match=r"access\.toml: not valid TOML: .*; everything stays as it was"):
            tell_broker(settings)
        Wire.connect(broker.port, "bad", version=5, code=0x8A).close()

"""``forebay run``."""

import typer

from gateway.broker import run as run_broker
from gateway.cli.options import ConfigOption, DataDirOption, ListenOption, SetOption, settings_from


def run(
    config: ConfigOption = None, listen: ListenOption = None, data_dir: DataDirOption = None, sets: SetOption = None
) -> None:
    """Run the broker in the foreground until SIGTERM or Ctrl-C; SIGHUP reads settings and users again."""
    raise typer.Exit(run_broker(settings_from(config, data_dir, listen, sets)))

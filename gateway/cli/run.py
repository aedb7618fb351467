"""``forebay run``."""

import json
import os
import sys
from typing import Final

from gateway.appliance.facts import why_forgotten
from gateway.cli.options import ConfigOption, DataDirOption, ListenOption, SetOption, settings_from
from gateway.store.backup import DATABASE
from gateway.store.migrations import create

# glibc's own limits grow with the largest block that was freed: after a burst of large messages their memory would stay
GIVES_BACK: Final = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "1048576"}


def run(
    config: ConfigOption = None, listen: ListenOption = None, data_dir: DataDirOption = None, sets: SetOption = None
) -> None:
    """Run the broker in the foreground until SIGTERM or Ctrl-C; SIGHUP reads settings and users again."""
    settings = settings_from(config, data_dir, listen, sets, tell=False)
    if not why_forgotten():  # else a new one would say that there are no sessions, of which the lost one is full
        create(settings.data_dir / DATABASE)
    sources = settings.sources
    # the broker runs for months: it starts anew without what only a command line or a new database needs (16 MB)
    told = json.dumps([str(sources.config) if sources.config else None, sources.sets, sources.options])
    path = [] if os.getcwd() in sys.path else ["-P"]  # find the package where this process found it
    os.execve(sys.executable, [sys.executable, *path, "-m", "gateway.broker", told], {**GIVES_BACK, **os.environ})

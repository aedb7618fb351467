"""docs/settings.md from the settings table: ``python -m gateway.cli.reference > docs/settings.md``."""

import sys
from collections.abc import Iterator

from gateway.settings.table import TABLE
from gateway.settings.uplink import FIELDS

_HEAD = """# Settings

Generated from `gateway/settings` by `make docs`; do not edit.

Every setting has a default, so no file is needed. Later sources win: what the board makes of the default
([boards.md](boards.md)), the settings file (`--config FILE`, or `FOREBAY_CONFIG`), the environment, `--set KEY=VALUE`,
then `--listen` and `--data-dir`. `forebay config init` writes a file with every setting at its default, `forebay config
check` reads one, `forebay config show` prints what is in force.

Times: a number counts seconds; `"500ms"`, `"30s"`, `"5m"`, `"2h"`, `"7d"` work too. Sizes: a number counts bytes;
`"64KiB"`, `"512MiB"`, `"1GiB"` work too. In the environment and with `--set`, lists are separated by commas. A wrong
value or an unknown key is one line that names where, which key, which value and what is allowed; exit code 2.

| Key | Default | Allowed | Environment | What it does |
|---|---|---|---|---|
"""
_TAIL = """
`min_session_expiry` in the file:

```toml
[[min_session_expiry]]
client_id = "collector-*"   # * any characters, ? one
seconds = "7d"
```

`client_type` in the file (the first match counts, who matches none is a device):

```toml
[[client_type]]
client_id = "collector-*"
type = "application"

[[client_type]]
username = "historian"      # with client_id beside it both must match
type = "application"
start = "earliest"          # these four in place of application_log.start, max_bytes, max_age and drain_rate
max_bytes = "500MiB"
max_age = "7d"
drain_rate = 2000
```

`collector` in the file (docs/doctor.md; `forebay collector add` writes such rows):

```toml
[[collector]]
name = "line1"
client_id = "line1"         # * any characters, ? one
product = "telegraf"
topics = ["line/1/#"]
```

## Keys of an uplink

What stands in an `[[uplink]]`; [uplinks.md](uplinks.md) says what they are for.

| Key | Default | Allowed | What it does |
|---|---|---|---|
"""


def lines() -> Iterator[str]:
    """The page, piece by piece."""
    yield _HEAD
    for entry in TABLE.values():
        default = entry.kind.show(entry.kind.parse(entry.default))
        env = f"`{entry.env}`" + (f" or `{entry.foreign_env}`" if entry.foreign_env else "")
        yield f"| `{entry.name}` | `{default}` | {entry.kind.allowed} | {env} | {entry.help} |\n"
    yield _TAIL
    for key, field in FIELDS.items():
        default = "must be there" if field.default is None else f"`{field.kind.show(field.kind.parse(field.default))}`"
        yield f"| `{key}` | {default} | {field.kind.allowed} | {field.help} |\n"


if __name__ == "__main__":
    sys.stdout.writelines(lines())

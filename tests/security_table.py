"""Who may do what, as docs/security.md has it: its table is made of these rows, and the tests try each."""

from typing import Final, NamedTuple

ROLES: Final = ("device", "application", "operator")


class Row(NamedTuple):
    """``action`` is publish, subscribe or will; ``%u`` in the topic stands for the user's own name."""

    action: str
    topic: str
    device: bool
    application: bool
    operator: bool


ROWS: Final = (
    Row("publish", "plant/7/temperature", True, False, True),
    Row("publish", "spBv1.0/G/NDATA/E", True, False, True),
    Row("publish", "spBv1.0/G/NCMD/E", False, False, True),
    Row("publish", "spBv1.0/STATE/host", False, False, True),
    Row("publish", "$SYS/broker/uptime", False, False, False),
    Row("publish", "$sparkplug/certificates/spBv1.0/G/NBIRTH/E", False, False, False),
    Row("will", "plant/7/state", True, False, True),
    Row("will", "spBv1.0/STATE/host", False, False, True),
    Row("will", "$SYS/broker/uptime", False, False, False),
    Row("subscribe", "#", False, True, True),
    Row("subscribe", "plant/+/temperature", False, True, True),
    Row("subscribe", "$share/readers/plant/#", False, True, True),
    Row("subscribe", "command/%u/#", True, True, True),
    Row("subscribe", "command/other/#", False, True, True),
    Row("subscribe", "spBv1.0/+/NCMD/#", True, True, True),
    Row("subscribe", "spBv1.0/+/NDATA/#", False, True, True),
    Row("subscribe", "$sparkplug/certificates/spBv1.0/#", False, True, True),
    Row("subscribe", "$SYS/#", False, False, True),
)


def markdown() -> str:
    """The table of the page."""
    lines = ["| | device | application | operator |", "|---|---|---|---|"]
    for row in ROWS:
        cells = ("yes" if allowed else "no" for allowed in row[2:])
        lines.append(f"| {row.action} `{row.topic}` | {' | '.join(cells)} |")
    return "\n".join(lines)

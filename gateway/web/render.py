"""Templates, and what every page shows around its content."""

import socket
from pathlib import Path
from typing import Any, Final, final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gateway import __version__

HERE: Final = Path(__file__).parent
TABS: Final = (
    ("/", "Overview"),
    ("/sessions", "Sessions"),
    ("/flows", "Flows"),
    ("/sparkplug", "Sparkplug"),
    ("/uplinks", "Uplinks"),
    ("/settings", "Settings"),
    ("/log", "Log"),
)


@final
class Pages:
    """Everything that goes into a page is escaped: names of clients and topics are made by others."""

    def __init__(self) -> None:
        self._templates = Environment(
            loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
            lstrip_blocks=True,
        )  # fmt: skip
        self._templates.globals.update(host=socket.gethostname(), version=__version__)

    def fragment(self, name: str, values: dict[str, Any]) -> Markup:
        """A part of a page."""
        return Markup(self._templates.get_template(f"{name}.html").render(values))

    def page(self, name: str, values: dict[str, Any]) -> str:
        """A whole page."""
        return self._templates.get_template(f"{name}.html").render(values)

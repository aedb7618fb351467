"""``--watch``: the same answer again and again, until Ctrl-C."""

import json
import time
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.live import Live

WatchOption = Annotated[
    float, typer.Option("--watch", "-w", min=0, metavar="SECONDS", help="Again every so many seconds; 0 = once.")
]


def show(ask: Callable[[], Any], draw: Callable[[Any], RenderableType], as_json: bool, every_s: float) -> None:
    """Print what ``ask`` gives, drawn or as JSON; with ``every_s`` over and over, as JSON one line each time."""
    console = Console(highlight=False, markup=False)
    if not every_s:
        answer = ask()
        if as_json:
            typer.echo(json.dumps(answer, indent=2, ensure_ascii=False))
        else:
            console.print(draw(answer))
        return
    try:
        if as_json:
            while True:
                typer.echo(json.dumps(ask(), ensure_ascii=False))
                time.sleep(every_s)
        with Live(draw(ask()), console=console, auto_refresh=False, screen=console.is_terminal) as live:
            while True:
                time.sleep(every_s)
                live.update(draw(ask()), refresh=True)
                if not console.is_terminal:  # nothing can be drawn over there: each answer below the last
                    console.print(live.renderable)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None

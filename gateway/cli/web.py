"""``forebay web``: the status page as a process of its own, beside a broker that runs."""

import typer

from gateway.cli.options import ConfigOption, DataDirOption, SetOption, UsageError, settings_from


def web(config: ConfigOption = None, data_dir: DataDirOption = None, sets: SetOption = None) -> None:
    """Serve metrics and the status page of the running broker; forebay run does so itself when http.listen is set."""
    settings = settings_from(config, data_dir, None, sets)
    if not settings.http_listen and not settings.http_listen_tls:
        raise UsageError("http.listen = []: expected an address, such as --set http.listen=127.0.0.1:8080")
    from gateway.web.main import run  # it is large, and no other command needs it

    raise typer.Exit(run(settings))

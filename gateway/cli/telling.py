"""Telling a running broker that users, roles, rules or bans were changed."""

from gateway.cli.control import NoBrokerError, ask
from gateway.settings.table import Settings


def tell_broker(settings: Settings) -> None:
    """The broker of this data folder takes the change over at once. Raises RefusedError when it cannot."""
    try:
        ask(settings.control_socket, {"cmd": "reload_users"})
    except NoBrokerError:
        pass  # its next start reads what was written

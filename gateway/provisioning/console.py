"""What a screen or a serial cable shows: how to reach this gateway, and what can be done without a network."""

import fcntl
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from gateway.auth import AuthError
from gateway.provisioning import setup_code
from gateway.provisioning.card import PASSWORD_CHARS_MIN

WORD: Final = "RESET"
_SIOCGIFADDR: Final = 0x8915


class View(NamedTuple):
    """What there is to show."""

    name: str
    version: str
    board: str
    addresses: Sequence[str]
    code: str
    notes: Sequence[str]


def addresses() -> list[str]:
    """The IPv4 addresses of this machine's interfaces, as "192.168.1.5 (eth0)"."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            if name == "lo":
                continue
            try:
                answer = fcntl.ioctl(sock.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:  # it has none
                continue
            found.append(f"{socket.inet_ntoa(answer[20:24])} ({name})")
    return found


def screen(view: View) -> str:
    """The text above the prompt."""
    lines = ["", f"Forebay {view.version}, {view.board}", "", f"  name       {view.name}"]
    lines += [f"  address    {address}" for address in view.addresses] or ["  address    none: no cable, or no DHCP"]
    if view.addresses:
        first = view.addresses[0].partition(" ")[0]
        lines.append(f"  page       https://{first}:8443")
    if view.code:
        lines += ["", f"  setup code {view.code}", "  Log in as setup with it, until somebody has a user of their own."]
    lines += [f"  note       {note}" for note in view.notes]
    lines += ["", "  Enter: show again   u: add a user   r: start again   f: factory reset", ""]
    return "\n".join(lines)


class Actions(NamedTuple):
    """What the keys do."""

    show: Callable[[], str]
    add_user: Callable[[str, str], None]
    restart: Callable[[], None]
    reset: Callable[[], None]


def answer(key: str, ask: Callable[[str, bool], str], actions: Actions) -> str:
    """What is said after a key; ``ask``: a question, and whether the answer is secret."""
    match key.strip().lower():
        case "u":
            name, password = ask("user", False), ask("password", True)
            if len(password) < PASSWORD_CHARS_MIN:
                return f"expected at least {PASSWORD_CHARS_MIN} characters"
            if name == setup_code.USER:
                return f"{name}: goes with the setup code, expected another name"
            try:
                actions.add_user(name, password)
            except AuthError as error:
                return str(error)
            return f"{name}: added. The setup code is no longer valid."
        case "r":
            if ask("start again? y", False).strip().lower() != "y":
                return "not started again"
            actions.restart()
            return "starting again"
        case "f":
            said = "all messages, sessions, users and settings are deleted"
            if ask(f"{said}: type {WORD}", False).strip() != WORD:
                return "nothing was deleted"
            actions.reset()
            return "starting again without data"
        case _:
            return actions.show()

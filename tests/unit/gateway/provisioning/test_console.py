import pytest

from gateway.auth import AuthError
from gateway.provisioning.console import Actions, View, addresses, answer, screen


class Done:
    """What the keys did."""

    def __init__(self) -> None:
        self.users: list[tuple[str, str]] = []
        self.steps: list[str] = []

    def add_user(self, name: str, password: str) -> None:
        if ":" in name:
            raise AuthError("expected a user name")
        self.users.append((name, password))

    def actions(self) -> Actions:
        return Actions(
            lambda: "shown", self.add_user, lambda: self.steps.append("restart"), lambda: self.steps.append("reset")
        )


def test_the_screen_says_how_to_reach_it() -> None:
    text = screen(View("line-4", "1.0.0", "rpi", ["192.168.1.5 (eth0)"], "ABCD-EFGH-JKMN", ["a note"]))
    for word in ("line-4", "1.0.0", "192.168.1.5 (eth0)", "https://192.168.1.5:8443", "ABCD-EFGH-JKMN", "a note"):
        assert word in text


def test_without_code_or_address() -> None:
    text = screen(View("line-4", "1.0.0", "rpi", [], "", []))
    assert "setup" not in text
    assert "no cable" in text


@pytest.mark.parametrize(
    ("key", "answers", "said", "steps", "users"),
    [
        ("", [], "shown", [], []),
        ("x", [], "shown", [], []),
        ("u", ["admin", "12345678"], "admin: added", [], [("admin", "12345678")]),
        ("U ", ["admin", "1234567"], "expected at least 8", [], []),
        ("u", ["a:b", "12345678"], "expected a user name", [], []),
        ("u", ["setup", "12345678"], "setup: goes with the setup code", [], []),
        ("r", ["n"], "not started again", [], []),
        ("r", ["y"], "starting again", ["restart"], []),
        ("f", ["reset"], "nothing was deleted", [], []),
        ("f", ["RESET"], "starting again without data", ["reset"], []),
    ],
)
def test_keys(key: str, answers: list[str], said: str, steps: list[str], users: list[tuple[str, str]]) -> None:
    done, left = Done(), list(answers)
    assert answer(key, lambda question, secret: left.pop(0), done.actions()).startswith(said)
    assert (done.steps, done.users, left) == (steps, users, [])


def test_a_password_is_asked_for_as_a_secret() -> None:
    asked: list[tuple[str, bool]] = []

    def ask(question: str, secret: bool) -> str:
        asked.append((question, secret))
        return "12345678"

    answer("u", ask, Done().actions())
    assert asked == [("user", False), ("password", True)]


def test_addresses_of_this_machine() -> None:
    assert all(text.count(".") == 3 and text.endswith(")") for text in addresses())

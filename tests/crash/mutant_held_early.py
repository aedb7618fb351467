"""The broker that answers for a held-back message as soon as it has delivered it: the crash tests must catch it."""

from gateway.core.answers import release_acks
from gateway.store.pump import StorePump
from tests.crash.mutant import serve

real_run = StorePump.run


def run(self: StorePump, now: int) -> None:
    core = self._router.core
    for message in core.hold:
        if message.answers and not message.done:
            message.done = True
            release_acks(core, message.client)
            self._answered()
    real_run(self, now)


StorePump.run = run  # type: ignore[method-assign]

if __name__ == "__main__":
    serve()

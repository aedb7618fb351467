"""The broker with a store that reports each commit before it makes it: the crash tests must catch it."""

from typing import Any

from gateway.core.batch import Batch
from gateway.store.sqlite import Store
from tests.crash.mutant import serve

real_init, real_submit = Store.__init__, Store.submit


def init(self: Store, *args: Any, on_done: Any, **options: Any) -> None:
    real_init(self, *args, on_done=lambda number, error: None, **options)
    self.__dict__["hasty"] = on_done


def submit(self: Store, batch: Batch) -> None:
    real_submit(self, batch)
    self.__dict__["hasty"](batch.number, None)


Store.__init__ = init  # type: ignore[method-assign]
Store.submit = submit  # type: ignore[method-assign]

if __name__ == "__main__":
    serve()

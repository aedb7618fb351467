"""The flush-state cache by itself, and beside a naive model that remembers every message."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.flush import FlushCache
from gateway.core.model import Client

IDLE, INTERVAL, EXPIRATION = 200, 100, 5000


def client(buffer: int = 5) -> Client:
    made = Client(object(), "peer", 1000, 0)
    made.buffer = buffer
    return made


def cache(size: int = 10) -> FlushCache:
    return FlushCache(size, EXPIRATION, INTERVAL, IDLE)


def test_flushes_by_count_and_counts_anew_after_the_flush() -> None:
    f, c = cache(), client(3)
    for _ in range(2):
        assert [f.wrote(c, 0) for _ in range(3)] == [False, False, True]
        c.take()
        f.flushed(c, 0)


def test_a_write_between_the_call_for_a_flush_and_the_flush_goes_with_it() -> None:
    """And one behind the flush counts as one: nothing is forgotten, nothing counted twice."""
    f, c = cache(), client(3)
    assert [f.wrote(c, 0) for _ in range(4)] == [False, False, True, True]
    c.take()
    assert not f.wrote(c, 0)
    f.flushed(c, 0)
    assert c.waiting == 1
    assert f.run(200) == []
    assert f.run(300) == [c]


def test_a_count_of_nothing_flushes_each() -> None:
    f, c = cache(), client(0)
    assert [f.wrote(c, 0), f.wrote(c, 0)] == [True, True]


def test_the_scheduler_runs_only_while_something_waits() -> None:
    f, c = cache(), client()
    assert f.due() == 0
    f.wrote(c, 1000)
    assert f.due() == 1100
    assert [f.run(now) for now in (1100, 1200, 1299)] == [[], [], []]
    assert f.run(1300) == [c]
    c.take()
    f.flushed(c, 1300)
    assert f.due() == 1000 + EXPIRATION


def test_a_flush_long_ago_makes_the_next_look_the_last_one() -> None:
    f, c = cache(), client()
    f.wrote(c, 0)
    c.take()
    f.flushed(c, 10)
    f.run(100)
    f.wrote(c, 1000)
    assert f.due() == 1100
    assert f.run(1100) == [c]


def test_one_that_was_flushed_meanwhile_is_left_alone() -> None:
    f, a, b = cache(), client(), client()
    f.wrote(a, 0)
    f.wrote(b, 0)
    a.take()
    f.flushed(a, 50)
    assert f.run(300) == [b]


def test_expiry_flushes_and_forgets() -> None:
    f = FlushCache(10, 150, 1000, 10_000)
    a, b = client(), client()
    f.wrote(a, 0)
    f.wrote(b, 100)
    assert f.due() == 150
    assert f.run(150) == [a]
    assert len(f) == 1
    assert f.due() == 250
    assert f.run(250) == [b]
    assert len(f) == 0
    a.take()
    b.take()
    f.run(1000)
    assert f.due() == 0


def test_the_one_written_to_longest_ago_gives_way() -> None:
    f, a, b, c = cache(2), client(), client(), client()
    for one in (a, b, a, c):
        f.wrote(one, 0)
        if one is not c:
            assert f.overflow() is None
    assert f.overflow() is b
    assert f.overflow() is None
    assert b.waiting == 1
    assert f.everything() == [a, c]


def test_a_cache_of_size_nothing_keeps_nobody() -> None:
    f, a = cache(0), client()
    f.wrote(a, 0)
    assert f.overflow() is a
    assert len(f) == 0


def test_an_ended_connection_leaves_no_entry() -> None:
    f, a = cache(), client()
    f.wrote(a, 0)
    f.forget(a)
    assert (len(f), f.everything(), f.run(300), f.due()) == (0, [], [], 0)
    f.forget(a)


class Model:
    """What should be: for each client the times of what was written and not yet flushed."""

    def __init__(self) -> None:
        self.unflushed: dict[int, list[int]] = {}
        self.flushed: dict[int, int] = {}  # entries
        self.order: list[int] = []  # by last write
        self.wrote: dict[int, int] = {}

    def write(self, i: int, now: int) -> None:
        self.unflushed.setdefault(i, []).append(now)
        self.flushed.setdefault(i, now)
        self.wrote[i] = now
        if i in self.order:
            self.order.remove(i)
        self.order.append(i)

    def forget(self, i: int) -> None:
        self.flushed.pop(i, None)
        if i in self.order:
            self.order.remove(i)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 3)),
        st.tuples(st.just("take"), st.integers(0, 3)),
        st.tuples(st.just("close"), st.integers(0, 3)),
        st.tuples(st.just("pass"), st.integers(1, 700)),
    ),
    max_size=60,
)


@given(STEPS, st.integers(0, 6), st.integers(0, 4), st.sampled_from([150, 350, 5000]))
def test_as_the_model(steps: list[tuple[str, int]], count: int, size: int, expiration: int) -> None:
    """Nothing waits longer than idle time and interval, nothing above the count, and no flush is without a reason."""
    f, model = FlushCache(size, expiration, INTERVAL, IDLE), Model()
    clients = [client(count) for _ in range(4)]
    touched: set[int] = set()
    now = 0

    def take(i: int) -> None:
        clients[i].take()
        f.flushed(clients[i], now)
        model.unflushed[i] = []
        if i in model.flushed:
            model.flushed[i] = now
        touched.discard(i)

    for what, n in steps:
        if what == "write" and n in touched:
            clients[n].out.write(b"x")  # goes along
        elif what == "write":
            model.write(n, now)
            due = f.wrote(clients[n], now)
            assert due == (len(model.unflushed[n]) >= count)
            evicted = f.overflow()
            assert (evicted is None) == (len(model.order) <= size)
            if due:
                touched.add(n)
            if evicted is not None:
                assert evicted is clients[model.order[0]]
                gone = model.order[0]
                model.forget(gone)
                if evicted.waiting:
                    touched.add(gone)
        elif what == "take":
            take(n)
        elif what == "close":
            f.forget(clients[n])
            model.forget(n)
            model.unflushed.pop(n, None)
            touched.discard(n)
            clients[n] = client(count)
        else:
            for i in sorted(touched):
                take(i)  # the turn ends before time passes
            end = now + n
            while (at := f.due()) and at <= end:
                assert at > now or at == now
                now = max(now, at)
                for c in f.run(now):
                    i = clients.index(c)
                    idle = now - model.flushed[i] > IDLE
                    assert idle or now - model.wrote[i] >= expiration
                    take(i)
                for i in [i for i in model.order if now - model.wrote[i] >= expiration]:
                    model.forget(i)
            now = end
        for i, c in enumerate(clients):
            waiting = model.unflushed.get(i, [])
            assert c.waiting == len(waiting)
            assert all(now - at <= IDLE + INTERVAL for at in waiting)
            assert i in touched or len(waiting) < max(count, 1)
        assert len(f) == len(model.order)

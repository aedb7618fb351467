"""The commissioning steps against a live node, as a pure state machine.

In: what the node did (``feed``), the time (``tick``), the operator's answers (``answer``). Out (``take``): what is to
be done to its connection, questions, and lines to show. No I/O and no clock: times are gateway ms of the sightings.
``findings`` fill as it goes; they are judged in ``verdict.py``.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, final

from gateway.bridge.outage import Outage, Window, account
from gateway.bridge.sightings import DATA, Closed, Connected, Message, Refused, Sighting

STEPS: Final = ("acknowledge", "outage", "half_open", "reboot", "overflow")
RISING: Final = 5  # values in a row that make a counter
UNACKED: Final = 3  # messages that must wait for their PUBACK before the link is cut


@final
@dataclass(frozen=True, slots=True)
class Plan:
    """How long to wait for what, ms; ``steps`` of STEPS."""

    steps: tuple[str, ...] = ("acknowledge", "outage", "half_open", "reboot")
    counter: str | None = None  # a metric that counts up; None = found among the whole-number metrics
    samples: int = 6  # data messages that tell the usual interval
    patience: int = 20  # times as many until it is said that no metric counts up
    samples_ms: int = 120_000
    settle_ms: int = 10_000  # without news after which a replay is over
    replay_ms: int = 600_000
    reconnect_ms: int = 180_000
    outage_ms: int = 20_000  # at least; longer than 1.5 x keep alive in any case
    margin_ms: int = 5_000
    overflow_ms: int = 3_600_000


@final
@dataclass(frozen=True, slots=True)
class Do:
    """An action of ``probe_do``."""

    action: str


@final
@dataclass(frozen=True, slots=True)
class Ask:
    """A question to the operator; the machine stands until answer()."""

    text: str
    by_hand: bool = False  # somebody must do something at the device


@final
@dataclass(frozen=True, slots=True)
class Tell:
    text: str


Output = Do | Ask | Tell
Script = Generator[None, None, None]


@final
@dataclass(slots=True)
class Findings:
    """What the steps showed; None = the step was not done or told nothing."""

    connect: Connected | None = None
    qos: dict[str, int] = field(default_factory=dict)  # by message type, the lowest seen
    interval_ms: int = 0
    counter: str | None = None
    client_ids: set[str] = field(default_factory=set)
    bdseq_matches: bool | None = None
    bdseq_type: int = 0  # datatype of that of the births
    unacked: int | None = None  # messages without PUBACK when the link was cut
    resent: int | None = None
    resent_dup: bool | None = None
    replay_order: str | None = None  # of what was sent again against the new birth
    outage: Outage | None = None
    noticed_ms: int | None = None  # how long it took the device to leave a dead link
    half_open: Outage | None = None
    reboot: Outage | None = None
    overflow: Outage | None = None
    skipped: dict[str, str] = field(default_factory=dict)  # step -> why
    failed: str = ""  # why the probe could not go on

    def data_qos(self) -> int | None:
        found = [self.qos[name] for name in DATA if name in self.qos]
        return min(found) if found else None


@final
class Probe:
    """One run. Call take() after each of the others, and do what it says; ``done`` when there is no more."""

    def __init__(self, node: str, plan: Plan, now: int) -> None:
        self.findings = Findings()
        self.done = False
        self._node = node
        self._plan = plan
        self._now = now
        self._connected = True
        self._connections: list[Connected] = []
        self._messages: list[Message] = []
        self._moved = 0  # when the last message came that was new to the step
        self._output: list[Output] = []
        self._asking = False
        self._said = False  # the last answer
        self._script = self._run()

    def feed(self, sighting: Sighting) -> None:
        """What the node did, in its order."""
        self._now = max(self._now, sighting.at)
        if isinstance(sighting, Connected):
            self._connected = True
            self._connections.append(sighting)
            self.findings.connect = sighting
            self.findings.client_ids.add(sighting.client_id)
        elif isinstance(sighting, Closed):
            self._connected = False
        elif isinstance(sighting, Refused):
            pass
        else:
            self._message(sighting)

    def tick(self, now: int) -> None:
        """The time, after what was fed."""
        self._now = max(self._now, now)
        if self._asking or self.done:
            return
        try:
            next(self._script)
        except StopIteration:
            self.done = True

    def answer(self, yes: bool) -> None:
        self._said = yes
        self._asking = False

    def take(self) -> list[Output]:
        output = self._output
        self._output = []
        return output

    def _message(self, message: Message) -> None:
        self._messages.append(message)
        findings = self.findings
        before = findings.qos.get(message.type, message.qos)
        findings.qos[message.type] = min(before, message.qos)
        if message.type == "NBIRTH" and message.bdseq is not None:
            findings.bdseq_type = message.bdseq_type
            link = next((c for c in self._connections if c.connection == message.connection), None)
            if link is not None and link.will_bdseq is not None:
                same = link.will_bdseq == message.bdseq
                findings.bdseq_matches = same and findings.bdseq_matches is not False

    # what the script is made of

    def _until(self, true: Callable[[], bool], ms: int) -> Generator[None, None, bool]:
        end = self._now + ms
        while not true():
            if self._now >= end:
                return False
            yield
        return True

    def _ask(self, text: str, by_hand: bool = False) -> Generator[None, None, bool]:
        self._output.append(Ask(text, by_hand))
        self._asking = True
        yield  # tick() goes on when it is answered
        return self._said

    def _do(self, *actions: str) -> None:
        self._output += [Do(action) for action in actions]

    def _tell(self, text: str) -> None:
        self._output.append(Tell(text))

    def _back(self) -> Generator[None, None, bool]:
        """Wait for a connection that is newer than those there are."""
        count = len(self._connections)
        came = yield from self._until(lambda: len(self._connections) > count, self._plan.reconnect_ms)
        if not came:
            self.findings.failed = f"it did not come back within {self._plan.reconnect_ms // 1000} s"
        return came

    def _data(self, start: int = 0) -> list[Message]:
        return [message for message in self._messages[start:] if message.type in DATA]

    def _counts(self, message: Message) -> tuple[int, ...]:
        return message.integers.get(self.findings.counter or "", ())

    def _settled(self, start: int) -> Generator[None, None, None]:
        """Until no late message has come for a while: what is live goes on for ever.

        It has begun to speak by then: a device may take its time after it has connected.
        """
        link = len(self._connections)
        yield from self._until(lambda: any(one.connection >= link for one in self._data(start)), self._plan.samples_ms)
        known = [count for message in self._messages[:start] for count in self._counts(message)]
        lowest = min(known, default=0)  # below it a device counts anew
        highest, seen = lowest, start
        moved, end = self._now, self._now + self._plan.replay_ms
        quiet = max(self._plan.settle_ms, 3 * self.findings.interval_ms)
        while self._now < end and self._now - moved < quiet:
            for message in self._data(seen):
                counts = self._counts(message)
                if message.historical or any(lowest <= count <= highest for count in counts):
                    moved = message.at
                highest = max((highest, *counts))
            seen = len(self._messages)
            yield

    # the steps

    def _run(self) -> Script:
        go = yield from self._ask(
            f"{self._node} will be disconnected several times and kept away for a while; hosts see its death and birth,"
            " and data may be lost. Go on?"
        )
        if not go:
            self.findings.failed = "it was not allowed"
            return
        steps: dict[str, Callable[[], Script]] = {
            "acknowledge": self._acknowledge, "outage": self._long_outage, "half_open": self._half_open,
            "reboot": self._reboot, "overflow": self._overflow,
        }  # fmt: skip
        yield from self._baseline()
        for name, step in steps.items():
            if self.findings.failed:
                break
            if name in self._plan.steps:
                yield from step()
        self._do("revive", "admit", "release")

    def _baseline(self) -> Script:
        """One whole session from its CONNECT on: facts of the connection, births, QoS, interval, the counter."""
        self._tell("cutting the link once, to see a whole session")
        self._do("cut")
        if not (yield from self._back()):
            return
        plan, link = self._plan, len(self._connections)
        yield from self._until(lambda: any(one.connection >= link for one in self._data()), plan.samples_ms)
        yield from self._sleep(plan.settle_ms)  # what it had stored comes in a rush, and says nothing of the interval
        start = len(self._messages)

        def enough() -> bool:
            data = self._data(start)
            if len(data) < plan.samples or data[-1].at - data[0].at < plan.settle_ms:
                return False
            return self._counting(data) or len(data) >= plan.patience * plan.samples

        yield from self._until(enough, plan.samples_ms)
        data = self._data(start)
        if len(data) < 2:
            self.findings.failed = f"{len(data)} data messages in {plan.samples_ms // 1000} s are too few to go by"
            return
        counter = plan.counter or _counter(data)
        counted = [message for message in data if counter is None or counter in message.integers]
        if len(counted) < 2:
            self.findings.failed = f"no data with the counter {counter} came"
            return
        self.findings.counter = counter
        self.findings.interval_ms = _interval(counted, counter)
        told = f"counter {counter}" if counter else "no metric counts up: judged by time stamps, less surely"
        self._tell(f"data at QoS {self.findings.data_qos()} each {self.findings.interval_ms} ms, {told}")

    def _counting(self, data: list[Message]) -> bool:
        """Whether the counter is known by now."""
        name = self._plan.counter
        if name is None:
            return _counter(data) is not None
        return sum(name in message.integers for message in data) >= RISING

    def _acknowledge(self) -> Script:
        """Withhold PUBACK, cut, and see whether the same topic and payload come again."""
        findings, plan = self.findings, self._plan
        if not findings.data_qos():
            findings.skipped["acknowledge"] = "data at QoS 0 is never acknowledged"
            return
        self._tell("keeping back acknowledgements, then cutting the link")
        start = len(self._messages)
        self._do("withhold")
        wait = max(plan.settle_ms, 3 * UNACKED * findings.interval_ms)
        yield from self._until(lambda: len(self._data(start)) >= UNACKED, wait)
        waiting = [message.digest for message in self._data(start) if message.qos > 0]
        if not waiting:
            findings.skipped["acknowledge"] = "no data came"
            self._do("release")
            return
        again = len(self._messages)
        self._do("cut", "release")
        if not (yield from self._back()):
            return
        link = len(self._connections)

        def came() -> list[Message]:
            return [
                message
                for message in self._messages[again:]
                if message.connection >= link and message.digest in waiting
            ]

        def over() -> bool:
            """All came, or for a while only what is new."""
            if len({message.digest for message in came()}) == len(set(waiting)):
                return True
            fresh = [one.at for one in self._data(again) if one.connection >= link and one.digest not in waiting]
            return bool(fresh) and self._now - fresh[0] >= max(plan.settle_ms, 3 * findings.interval_ms)

        yield from self._until(over, plan.samples_ms)
        found = came()
        findings.unacked = len(set(waiting))
        findings.resent = len({message.digest for message in found})
        if found:
            findings.resent_dup = all(message.dup for message in found)
            findings.replay_order = self._against_birth(found, again)
        self._tell(f"{findings.resent} of {findings.unacked} came again")

    def _against_birth(self, found: list[Message], start: int) -> str | None:
        born = next((n for n, message in enumerate(self._messages[start:]) if message.type == "NBIRTH"), None)
        if born is None:
            return None
        places = {self._messages[start:].index(message) > born for message in found}
        return "mixed" if len(places) == 2 else "after_birth" if places == {True} else "before_birth"

    def _long_outage(self) -> Script:
        alive = self.findings.connect.keep_alive_s if self.findings.connect is not None else 0
        away = max(alive * 1500 + self._plan.margin_ms, self._plan.outage_ms, 3 * self.findings.interval_ms)
        self._tell(f"turning it away for {away // 1000} s")
        self.findings.outage = yield from self._away(lambda: self._sleep(away))

    def _sleep(self, ms: int) -> Generator[None, None, bool]:
        yield from self._until(lambda: False, ms)
        return True

    def _away(
        self, wait: Callable[[], Generator[None, None, bool]], making_ms: int = 0
    ) -> Generator[None, None, Outage | None]:
        """Refuse and cut, wait, admit, and look at what comes; None when ``wait`` says no or it stays away."""
        start, cut_at = len(self._messages), self._now
        self._do("refuse", "cut")
        go = yield from wait()
        self._do("admit")
        if not (yield from self._back()) or not go:
            return None
        return (yield from self._judge(start, cut_at, making_ms))

    def _judge(self, start: int, cut_at: int, making_ms: int = 0) -> Generator[None, None, Outage]:
        back_at = self._connections[-1].at
        yield from self._settled(start)
        window = Window(start, cut_at, back_at, making_ms or back_at - cut_at, self._now)
        return account(self._messages, window, self.findings.counter, self.findings.interval_ms)

    def _half_open(self) -> Script:
        """Nothing is read or written any more, nothing closed: when does it notice, and what is lost till then?"""
        findings, plan = self.findings, self._plan
        alive = findings.connect.keep_alive_s if findings.connect is not None else 0
        self._tell("letting the link go dead without closing it")
        start, dead_at = len(self._messages), self._now
        count = len(self._connections)
        self._do("deaden")
        wait = 2500 * alive + plan.margin_ms + plan.reconnect_ms
        came = yield from self._until(lambda: len(self._connections) > count, wait)
        self._do("revive")
        if not came:
            findings.skipped["half_open"] = f"it did not notice a dead link within {wait // 1000} s"
            yield from self._back()
            return
        findings.noticed_ms = self._connections[-1].at - dead_at
        findings.half_open = yield from self._judge(start, dead_at)

    def _reboot(self) -> Script:
        findings = self.findings
        gather = max(10 * findings.interval_ms, self._plan.margin_ms)

        def wait() -> Generator[None, None, bool]:
            yield from self._sleep(gather)
            return (
                yield from self._ask(
                    "The device is turned away. Switch it off and on again now, and say yes once it runs (no = leave"
                    " this step out)",
                    by_hand=True,
                )
            )

        findings.reboot = yield from self._away(wait, gather)
        if not self._said:
            findings.skipped["reboot"] = "nobody restarted the device"

    def _overflow(self) -> Script:
        seconds = self._plan.overflow_ms // 1000
        if not (yield from self._ask(f"Turn it away for {seconds} s, to see how much it keeps?")):
            self.findings.skipped["overflow"] = "it was not allowed"
            return
        self.findings.overflow = yield from self._away(lambda: self._sleep(self._plan.overflow_ms))


def _interval(counted: list[Message], counter: str | None) -> int:
    """Ms from one to the next on the whole: they may come in bursts."""
    first, last = counted[0], counted[-1]
    steps = len(counted) - 1
    if counter is not None:
        steps = max(last.integers[counter][-1] - first.integers[counter][-1], 1)
    return max((last.at - first.at) // steps, 1)


def _counter(data: list[Message]) -> str | None:
    """A whole-number metric that goes up by one each time it comes, and comes most often."""
    values: dict[str, list[int]] = {}
    for message in data:
        for name, held in message.integers.items():
            values.setdefault(name, []).extend(held)
    rising = {
        name: len(seen)
        for name, seen in values.items()
        if len(seen) >= RISING and all(b - a == 1 for a, b in pairwise(seen))
    }
    return max(sorted(rising), key=lambda name: rising[name]) if rising else None

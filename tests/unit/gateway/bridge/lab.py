"""A device and a probe of it in virtual time: what the device does when its link fails is what the test says."""

import dataclasses
from collections.abc import Callable
from typing import final

from gateway.bridge.probe import Ask, Do, Plan, Probe, Tell
from gateway.bridge.sightings import Closed, Connected, Message, Refused, Sighting

STEP_MS = 50
SHORT = Plan(
    samples_ms=20_000, settle_ms=2_000, replay_ms=60_000, reconnect_ms=30_000, outage_ms=5_000, margin_ms=1_000,
    overflow_ms=60_000,
)  # fmt: skip
CLOCK_MS = 1_800_000_000_000  # the device's clock when the lab's stands at 0


@dataclasses.dataclass
class Policy:
    """What a device does."""

    qos: int = 1
    resends: bool = True
    dup: bool = True
    queue: str = "ram"  # "none", "ram", "disk"
    capacity: int = 1_000_000
    drops: str = "oldest"
    historical: bool = False
    covers: bool = False  # keeps what it sent into a dead link
    before_birth: bool = False
    seq_given: str = "send"
    counter: bool = True
    others: int = 0  # messages without the counter between two with it
    counts_while_away: bool = True
    resets: bool = False  # counts from 1 after a restart
    original_time: bool = True
    speaks_in_ms: int = 0  # after it has connected
    boots_in_ms: int = 1_000  # it makes nothing meanwhile
    notices: bool = True
    keep_alive_s: int = 2
    interval_ms: int = 200
    comes_back: bool = True


@dataclasses.dataclass
class Made:
    count: int
    at: int
    seq: int = -1
    late: bool = False


@final
class Device:
    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.seen: list[Sighting] = []
        self.connection = 1
        self.up = True
        self.dead_since = -1
        self.withheld = self.refused = False
        self.count = 100
        self.seq = 0
        self.retry_at = 0
        self.speaks_at = -1
        self.made_at = 0
        self.queue: list[Made] = []
        self.unacked: list[Made] = []
        self._connected(0)

    def step(self, now: int) -> list[Sighting]:
        policy = self.policy
        if self.dead_since >= 0 and policy.notices and now - self.dead_since >= 1500 * policy.keep_alive_s:
            self._lost(now)
        if self.speaks_at >= 0:
            if now >= self.speaks_at:
                self._speak(now)
        elif not self.up and policy.comes_back and now >= self.retry_at:
            self._retry(now)
        if self.up and self.dead_since < 0:
            for number in range(policy.others):
                self.seen.append(
                    Message(
                        now, self.connection, "DDATA", f"d{number}", policy.qos, False, f"{number} {now}".encode(),
                        integers={f"d{number}/Level": (now % 9 + number,)},
                    )
                )  # fmt: skip
        if now - self.made_at >= policy.interval_ms:
            self.made_at = now
            if self.up or policy.counts_while_away:
                self.count += 1
            self._make(Made(self.count, now), now)
        seen, self.seen = self.seen, []
        return seen

    def do(self, action: str, now: int) -> None:
        if action == "cut" and self.up:
            self._lost(now)
        elif action == "deaden":
            self.dead_since = now
        elif action == "revive" and self.dead_since >= 0:
            self._lost(now)
        elif action in ("withhold", "release"):
            self.withheld = action == "withhold"
        elif action in ("refuse", "admit"):
            self.refused = action == "refuse"

    def restart(self, now: int) -> None:
        self.unacked = self.unacked if self.policy.queue == "disk" else []
        self.queue = self.queue if self.policy.queue == "disk" else []
        if self.policy.resets:
            self.count = 0
        self.made_at = self.retry_at = now + self.policy.boots_in_ms

    def _lost(self, now: int) -> None:
        if self.dead_since < 0:
            self.seen.append(Closed(now))
        self.up, self.dead_since, self.withheld = False, -1, False
        self.retry_at = now + 400

    def _retry(self, now: int) -> None:
        self.retry_at = now + 400
        if self.refused:
            self.seen.append(Refused(now))
            return
        self.connection += 1
        self._connected(now)
        self.speaks_at = now + self.policy.speaks_in_ms
        if not self.policy.speaks_in_ms:
            self._speak(now)

    def _speak(self, now: int) -> None:
        self.speaks_at = -1
        self.up = True
        again = self.unacked if self.policy.resends else []
        waiting, self.queue, self.unacked = self.queue, [], []
        if not self.policy.before_birth:
            self._birth(now)
        for made in [*again, *waiting]:
            self._send(made, now, again=made in again)
        if self.policy.before_birth:
            self._birth(now)

    def _connected(self, now: int) -> None:
        self.seen.append(
            Connected(now, self.connection, "press", 4, True, self.policy.keep_alive_s, 1, self.connection % 256)
        )

    def _birth(self, now: int) -> None:
        self.seq = 0
        self.seen.append(
            Message(
                now, self.connection, "NBIRTH", "", 0, False, b"birth%d" % self.connection, 0, self.connection % 256, 4
            )
        )

    def _make(self, made: Made, now: int) -> None:
        if self.policy.seq_given == "enqueue":
            self.seq = (self.seq + 1) % 256
            made.seq = self.seq
        if self.up:
            self._send(made, now)
        elif self.policy.queue != "none":
            made.late = True
            self.queue.append(made)
            if len(self.queue) > self.policy.capacity:
                del self.queue[0 if self.policy.drops == "oldest" else -1]

    def _send(self, made: Made, now: int, again: bool = False) -> None:
        policy = self.policy
        if made.seq < 0:
            self.seq = (self.seq + 1) % 256
            made.seq = self.seq
        if self.dead_since >= 0:
            if policy.qos and policy.resends:
                self.unacked.append(made)
            elif policy.covers:
                made.late, made.seq = True, -1
                self.queue.append(made)
            return
        if policy.qos and self.withheld:
            self.unacked.append(made)
        historical = policy.historical and made.late
        time = CLOCK_MS + (made.at if policy.original_time else now)
        integers: dict[str, tuple[int, ...]] = {"Level": (7,)}
        if policy.counter:
            integers["Counter"] = (made.count,)
        self.seen.append(
            Message(
                now, self.connection, "NDATA", "", policy.qos, policy.dup and again, f"{made.count} {made.at}".encode(),
                made.seq, None, 0, historical, time, integers,
            )
        )  # fmt: skip


@final
class Lab:
    """Runs a probe to its end; ``told`` are its lines, ``asked`` its questions, ``done`` the actions."""

    def __init__(
        self, policy: Policy, plan: Plan = SHORT, answer: Callable[[Ask], bool] = lambda _: True, limit_s: int = 600
    ) -> None:
        self.device = Device(policy)
        self.probe = Probe("plant/press", plan, 0)
        self.told: list[str] = []
        self.asked: list[Ask] = []
        self.done: list[str] = []
        self.now = 0
        while not self.probe.done:
            assert self.now < limit_s * 1000, (self.told, self.done)
            self.now += STEP_MS
            for sighting in self.device.step(self.now):
                self.probe.feed(sighting)
            self.probe.tick(self.now)
            for output in self.probe.take():
                if isinstance(output, Do):
                    self.done.append(output.action)
                    self.device.do(output.action, self.now)
                elif isinstance(output, Tell):
                    self.told.append(output.text)
                else:
                    self.asked.append(output)
                    yes = answer(output)
                    if yes and output.by_hand:
                        self.device.restart(self.now)
                    self.probe.answer(yes)

"""Which step of the ladder holds for a node, why, what may still be lost, and what to set on the device.

From the best to the last: the device itself sends again (DEVICE); it stores and forwards by itself (NATIVE); what
arrives at QoS 0 is made durable on arrival (INGEST, which goes on at every step); holes are closed by a rebirth, which
brings current values and no history (REBIRTH); all that is left is to notice a dead link sooner (KEEP_ALIVE).
A step counts as reached only when a probe or the wire showed it: a profile, or a QoS in a header, is a promise.
"""

import dataclasses
import enum
from typing import Final, final

from gateway.bridge.facts import NodeFacts
from gateway.profiles import Ncmd, Profile

RESENT: Final = ("qos1_persistent", "qos1_ram")
VERDICTS: Final = (*RESENT, "qos1_no_retry", "qos0_native_sf", "qos0_lossy", "unknown")


class Step(enum.Enum):
    """The value is the step's name in profiles and output."""

    DEVICE = "device"
    NATIVE = "native"
    INGEST = "ingest"
    REBIRTH = "rebirth"
    KEEP_ALIVE = "keep_alive"


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Probed:
    """The verdict of a probe on this very node."""

    verdict: str
    date: str
    firmware: str = ""


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Advice:
    """What to do; ``upgrade`` when it sets the QoS of the device, by ``ncmd`` where a node command can."""

    to: Step
    text: str
    ncmd: Ncmd | None = None
    upgrade: bool = False


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Standing:
    """Where a node stands. ``why`` tells the way down, the reason for each step that was passed."""

    step: Step
    verdict: str
    source: str  # "probe", "wire", "profile" or "nothing"
    why: tuple[str, ...]
    remains: str  # what may still be lost
    advice: tuple[Advice, ...]


def stand(profile: Profile | None, facts: NodeFacts | None, probed: Probed | None, host_id: str = "") -> Standing:
    """The step that holds for a node. ``host_id`` is the gateway's own STATE id, for the text of the advice."""
    why: list[str] = []
    verdict, source = _verdict(profile, facts, probed, why)
    advice: list[Advice] = []
    if _device(verdict, source, facts, why):
        step = Step.DEVICE
    else:
        _advise_device(profile, facts, verdict, source, advice)
        if _native(verdict, source, facts, why):
            step = Step.NATIVE
        else:
            _advise_native(profile, host_id, advice)
            step = _below(profile, facts, why)
    if step is not Step.DEVICE:
        _advise_keep_alive(profile, facts, advice)
    if source in ("profile", "nothing"):
        node = facts.node if facts is not None else "GROUP/NODE"
        advice.append(Advice(Step.DEVICE, f"run the probe: forebay sparkplug probe {node}"))
    return Standing(step, verdict, source, tuple(why), _remains(step, verdict, profile, facts), tuple(advice))


def _verdict(
    profile: Profile | None, facts: NodeFacts | None, probed: Probed | None, why: list[str]
) -> tuple[str, str]:
    """The best founded verdict, and what it rests on."""
    firmware = facts.firmware if facts is not None else ""
    if probed is not None and probed.verdict != "unknown":
        if not (firmware and probed.firmware and firmware != probed.firmware):
            return probed.verdict, "probe"
        why.append(f"the probe of {probed.date} was on firmware {probed.firmware}, now it is {firmware}")
    if facts is not None:
        qos = facts.data_qos()
        if qos and facts.resends:
            return "qos1_ram", "wire"
        if qos == 0 and facts.historical:
            return "qos0_native_sf", "wire"
    if profile is None:
        why.append("no profile fits and nothing was probed")
        return "unknown", "nothing"
    if profile.expired(firmware):
        seen = profile.evidence.firmware_seen
        why.append(f"profile {profile.name} speaks of firmware {seen}, now it is {firmware}")
        return "unknown", "nothing"
    return profile.evidence.verdict, "profile"


def _device(verdict: str, source: str, facts: NodeFacts | None, why: list[str]) -> bool:
    qos = facts.data_qos() if facts is not None else None
    if qos == 0:
        why.append("data comes at QoS 0, so the device has nothing to send again")
        return False
    if verdict not in RESENT:
        if qos:
            why.append(f"data comes at QoS {qos}, but no message was seen to come again")
        return False
    if source == "profile":
        why.append("only the profile says that it sends again")
        return False
    why.append("it sends again what was not acknowledged: " + ("probed" if source == "probe" else "seen on the wire"))
    return True


def _native(verdict: str, source: str, facts: NodeFacts | None, why: list[str]) -> bool:
    if verdict == "qos0_native_sf" and source != "profile":
        why.append("it stores and forwards by itself: " + ("probed" if source == "probe" else "seen on the wire"))
        return True
    if facts is not None and facts.historical:
        why.append("it stores and forwards by itself: seen on the wire")
        return True
    if verdict == "qos0_native_sf":
        why.append("only the profile says that it stores and forwards by itself")
    return False


def _below(profile: Profile | None, facts: NodeFacts | None, why: list[str]) -> Step:
    if facts is not None and facts.loss_windows:
        why.append(f"stretches of time in which messages may have been lost: {len(facts.loss_windows)}")
    if facts is None or not facts.seq_gaps:
        why.append("what arrives is made durable on arrival, and no hole in seq was seen")
        return Step.INGEST
    why.append(f"{facts.seq_gaps} holes in seq: messages were lost on the way to the gateway")
    silent = facts.rebirths_asked > 0 and facts.rebirths_answered == 0
    if silent or (profile is not None and profile.session.rebirth is False and not facts.rebirths_answered):
        why.append("it answers no rebirth")
        return Step.KEEP_ALIVE
    return Step.REBIRTH


def _advise_device(
    profile: Profile | None, facts: NodeFacts | None, verdict: str, source: str, advice: list[Advice]
) -> None:
    if profile is None or not profile.upgrade.possible:
        return
    qos = facts.data_qos() if facts is not None else None
    if qos or verdict == "qos1_no_retry" or (source == "probe" and verdict in RESENT and qos is None):
        return  # it is set already
    advice.append(Advice(Step.DEVICE, profile.upgrade.text, profile.upgrade.ncmd, True))


def _advise_native(profile: Profile | None, host_id: str, advice: list[Advice]) -> None:
    if profile is None or not profile.native.available:
        return
    text = profile.native.how or "switch its own store-and-forward on"
    if host_id and ("primary_host" in profile.native.trigger or not profile.native.trigger):
        text += f" The gateway's id is {host_id}."
    advice.append(Advice(Step.NATIVE, text))


def _advise_keep_alive(profile: Profile | None, facts: NodeFacts | None, advice: list[Advice]) -> None:
    seconds = facts.keep_alive_s if facts is not None else None
    least = profile.transport.keep_alive_min_s if profile is not None else None
    if seconds is None or (seconds and seconds <= max(least or 0, 5)):
        return
    window = f"up to {seconds * 1.5:g} s of data go" if seconds else "data goes without end"
    goal = f"{max(least or 5, 5)} s"
    advice.append(
        Advice(Step.KEEP_ALIVE, f"set its keep alive to {goal}: {window} into a dead link before it is known")
    )


def _remains(step: Step, verdict: str, profile: Profile | None, facts: NodeFacts | None) -> str:
    if step is Step.DEVICE:
        return "nothing but by a reboot in an outage" if verdict == "qos1_ram" else "nothing known"
    seconds = facts.keep_alive_s if facts is not None else None
    window = f"up to {seconds * 1.5:g} s (1.5 x keep alive)" if seconds else "what it sends"
    if step is Step.NATIVE:
        if profile is not None and profile.native.covers_keep_alive:
            return "what its store has no room for"
        return f"{window} into a dead link before the device knows of it, and what its store has no room for"
    return f"{window} into a dead link, and all that it makes while it is away"


def outcome(before: NodeFacts, after: NodeFacts, least: int = 1) -> tuple[bool | None, str]:
    """Whether data came at QoS 1 or 2 after an upgrade was written to the device, and the reason to show.

    ``before`` are the facts of that moment, ``after`` those of now. None = fewer than ``least`` messages came since.
    """
    at = [0, 0, 0]
    for name in ("NDATA", "DDATA"):
        was, now = before.qos.get(name, [0, 0, 0]), after.qos.get(name, [0, 0, 0])
        at = [sum_ + b - a for sum_, a, b in zip(at, was, now, strict=True)]
    if sum(at) < least:
        return None, f"{sum(at)} of {least} messages came since"
    if at[0]:
        return False, f"{at[0]} of {sum(at)} messages still came at QoS 0"
    return True, f"all {sum(at)} messages came at QoS 1 or 2"

"""A node's place on the ladder, from the profiles that fit it and what was seen of it."""

from collections.abc import Iterable

from gateway.bridge.facts import NodeFacts
from gateway.bridge.ladder import Probed, Standing, stand
from gateway.profiles import Profile, match


def known(profiles: Iterable[Profile], facts: NodeFacts) -> tuple[Profile | None, Probed | None]:
    """The profile that fits a node best, and the verdict of a probe on it: a probed profile that names this node.

    The family's profile is preferred, since it tells what can be set; without one the probed one stands for it.
    """
    found = match(profiles, client_id=facts.client_id, make=facts.make, model=facts.model, topic=facts.node)
    probed = next((one.profile for one in found if "topic" in one.by and one.profile.evidence.method == "probe"), None)
    family = next((one.profile for one in found if one.profile is not probed), probed)
    if probed is None:
        return family, None
    evidence = probed.evidence
    return family, Probed(evidence.verdict, evidence.date, evidence.firmware_seen or "")


def standing(profiles: Iterable[Profile], facts: NodeFacts, host_id: str = "") -> tuple[str, Standing]:
    """The name of the profile that was used ("" = none), and where the node stands.

    ``host_id`` is the id under which the gateway itself is a primary host, "" = it is none.
    """
    profile, probed = known(profiles, facts)
    return profile.name if profile is not None else "", stand(profile, facts, probed, host_id)

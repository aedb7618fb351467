"""What must hold between the numbers that publishers submitted and those that subscribers received."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple


class Published(NamedTuple):
    """One publisher's account."""

    name: str
    qos: int
    submitted: dict[int, int]  # number -> how often the client program submitted it
    acknowledged: Sequence[int]


def missing(published: Published, received: Sequence[tuple[str, int]]) -> set[int]:
    """Acknowledged and not received."""
    return set(published.acknowledged) - {number for name, number in received if name == published.name}


def faults(published: Published, received: Sequence[tuple[str, int]]) -> list[str]:
    """Broken promises to one session that subscribed with QoS 2, one line each."""
    found = []
    numbers = [number for name, number in received if name == published.name]
    if lost := sorted(missing(published, received)):
        found.append(f"{published.name}: acknowledged and lost: {lost[:10]} ({len(lost)} in all)")
    if strange := sorted(set(numbers) - set(published.submitted)):
        found.append(f"{published.name}: never sent: {strange[:10]}")
    first = list(dict.fromkeys(numbers))
    if published.qos == 1 and first != sorted(first):
        at = next(index for index, (a, b) in enumerate(pairwise(first)) if a > b)
        found.append(f"{published.name}: out of order: {first[max(0, at - 3) : at + 5]}")
    if published.qos == 2:
        # a program that submits again sends another message as far as MQTT is concerned
        often = {
            number: count for number, count in Counter(numbers).items() if count > published.submitted.get(number, 0)
        }
        if often:
            found.append(f"{published.name}: QoS 2 more than once: {dict(list(often.items())[:10])}")
    return found

"""What the sources of many edge nodes are called as devices of one.

The edge node ``g/e`` becomes the device ``g:e``, its device ``d`` becomes ``g:e:d``; ``:`` and ``%`` within an id are
written %3A and %25, so that no two names are the same. Metrics keep their names. A template definition ``T`` becomes
``g:e:T``, since definitions of all sources stand in one birth, and so do the references to it.
"""

from collections.abc import Callable
from dataclasses import replace

from sparkplug.model import Metric, Template
from sparkplug.topic import NodeId


def own_device(id: NodeId, device: str | None) -> str:
    """The device that stands for a source."""
    levels = [id.group, id.node] if device is None else [id.group, id.node, device]
    return ":".join(level.replace("%", "%25").replace(":", "%3A") for level in levels)


def to_own(metric: Metric, id: NodeId) -> Metric:
    """A metric of a source as one of ours: templates refer to our definitions."""
    prefix = own_device(id, None) + ":"
    return _renamed(metric, lambda name: prefix + name)


def to_source(metric: Metric, id: NodeId) -> Metric:
    """A metric of ours as the source knows it."""
    prefix = own_device(id, None) + ":"
    return _renamed(metric, lambda name: name.removeprefix(prefix))


def is_definition(metric: Metric) -> bool:
    return isinstance(metric.value, Template) and metric.value.is_definition


def _renamed(metric: Metric, rename: Callable[[str], str]) -> Metric:
    value = metric.value
    if not isinstance(value, Template):
        return metric
    ref = None if value.template_ref is None else rename(value.template_ref)
    members = [_renamed(member, rename) for member in value.metrics]
    name = rename(metric.name) if value.is_definition and metric.name is not None else metric.name
    return replace(metric, name=name, value=replace(value, template_ref=ref, metrics=members))

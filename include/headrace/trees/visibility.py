"""What a user sees of trees: paths on which they lack the privilege are as if they did not exist."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headrace.context import Context
from headrace.model.access import PathFilter, Privilege
from headrace.model.paths import split_path
from headrace.model.trees import Device


def visible_devices(devices: list[Device], context: Context, privilege: Privilege) -> list[Device]:
    """Return devices with those of their series on which the user has a privilege, without devices that have none left."""
    paths = context.permissions().paths(privilege)
    if paths.allows_all:
        return devices
    seen = (visible_part(device, paths) for device in devices)
    return [device for device in seen if device is not None]


def visible_part(device: Device, paths: PathFilter) -> Device | None:
    """Return a device with its visible series; None if it has none, and may not be known otherwise."""
    nodes = device.nodes
    if paths.includes_below(nodes):
        return device
    if nodes not in paths.ancestors:
        return None
    series = tuple(one for one in device.series if paths.includes((*nodes, one.measurement)))
    return replace(device, series=series) if series else None


def visible_paths(names: Iterable[str], context: Context, privilege: Privilege = Privilege.READ_SCHEMA) -> list[str]:
    """Return the paths, such as databases, on or below which the user may have a privilege."""
    paths = context.permissions().paths(privilege)
    return [name for name in names if paths.allows_all or is_visible(name, paths)]


def is_visible(name: str, paths: PathFilter) -> bool:
    nodes = tuple(node for node in split_path(name) if node != "**")
    return paths.includes_below(nodes) or paths.touches(nodes)

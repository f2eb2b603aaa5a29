"""The tree of series that a query can read, in IoTDB's order.

IoTDB keeps the children of a node in a `java.util.HashMap` and lists series by walking it. That order decides the order of result
columns, and so the targets of INTO. The nodes come out of a `ConcurrentHashMap`, are copied into the other map in reverse, and both
keep the nodes of a bucket in a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from headrace.model.paths import PathPattern, split_path
from headrace.model.trees import Device, Timeseries
from headrace.model.types import DataType

_INITIAL_CAPACITY: Final = 16
_LOAD_FACTOR: Final = 0.75


@dataclass(frozen=True, slots=True)
class SeriesRef:
    """One series of one device, with the alias by which a query names it, if it does."""

    device: Device
    series: Timeseries
    alias: str | None = None

    @property
    def name(self) -> str:
        """The measurement, or the alias."""
        return self.alias or self.series.measurement

    @property
    def path(self) -> str:
        """The full path, with the alias if the query does."""
        return self.device.series_path(self.name)

    @property
    def type(self) -> DataType:
        """The type of its values."""
        return self.series.type


def java_hash(text: str) -> int:
    """Return `String.hashCode` with HashMap's spreading, unsigned."""
    value = 0
    encoded = text.encode("utf-16-be")
    for high, low in zip(encoded[0::2], encoded[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value ^ (value >> 16)


def hash_order(names: Sequence[str]) -> list[str]:
    """Sort distinct keys, given in insertion order, into the order in which IoTDB lists the children of a node."""
    capacity = _INITIAL_CAPACITY
    while len(names) > capacity * _LOAD_FACTOR:
        capacity *= 2
    insertion = concurrent_order(names)[::-1]
    return sorted(insertion, key=lambda name: java_hash(name) & (capacity - 1))


def concurrent_order(names: Sequence[str]) -> list[str]:
    """Sort distinct keys, given in insertion order, into the iteration order of a ConcurrentHashMap."""
    capacity = _INITIAL_CAPACITY
    bins: dict[int, list[str]] = {}
    for count, name in enumerate(names, 1):
        bins.setdefault(java_hash(name) & (capacity - 1), []).append(name)
        if count >= capacity * _LOAD_FACTOR:
            bins = {at: half for bin_ in bins.items() for at, half in split_bin(*bin_, capacity)}
            capacity *= 2
    return [name for at in sorted(bins) for name in bins[at]]


def split_bin(place: int, names: Sequence[str], capacity: int) -> list[tuple[int, list[str]]]:
    """Split a bin when a ConcurrentHashMap doubles: it keeps the longest tail that stays together, and prepends the other keys."""
    bits = [java_hash(name) & capacity for name in names]
    tail = max((at for at in range(1, len(bits)) if bits[at] != bits[at - 1]), default=0)
    halves: dict[int, list[str]] = {bits[tail]: list(names[tail:])}
    for name, bit in zip(names[:tail], bits, strict=False):
        halves.setdefault(bit, []).insert(0, name)
    return [(place + bit, half) for bit, half in halves.items()]


@dataclass(slots=True)
class _Node:
    children: dict[str, _Node] = field(default_factory=dict)
    series: SeriesRef | None = None


class SeriesTree:
    """Series by path, with wildcard matching."""

    def __init__(self, devices: Iterable[Device], order: Callable[[Sequence[str]], list[str]] = hash_order) -> None:
        """Build the tree of devices, given in the order of their creation.

        Args:
            devices: The devices.
            order: Sorts the children of a node. Queries list them by `hash_order`, SHOW by `concurrent_order`.
        """
        self.devices = tuple(devices)
        self.order = order
        self._root = _Node()
        for device in self.devices:
            node = self._root
            for name in device.nodes:
                node = node.children.setdefault(name, _Node())
            for series in device.series:
                node.children.setdefault(series.measurement, _Node()).series = SeriesRef(device, series)

    def match(self, pattern: PathPattern) -> list[SeriesRef]:
        """Return the series whose full path matches, in IoTDB's order."""
        if not pattern.has_wildcard:
            exact = self._find(pattern.nodes)
            return [exact] if exact is not None else []
        matched = [ref for path, ref in self._walk(self._root, ()) if pattern.matches(path)]
        return matched if "*" in pattern.nodes[-1] else matched + self._match_aliases(pattern)

    def _match_aliases(self, pattern: PathPattern) -> list[SeriesRef]:
        """Return the series with an alias that is the last node of a pattern."""
        alias = pattern.nodes[-1]
        devices = [device for device in self.walk_devices() if device.labels and pattern.matches((*device.nodes, alias))]
        series = [(device, device.find(alias)) for device in devices]
        return [SeriesRef(device, one, alias) for device, one in series if one is not None and one.measurement != alias]

    def match_devices(self, pattern: PathPattern) -> list[Device]:
        """Return the devices whose path matches, in the order of their creation."""
        return [device for device in self.devices if pattern.matches(device.nodes)]

    def walk_devices(self) -> list[Device]:
        """Return the devices in IoTDB's order."""
        by_path = {device.nodes: device for device in self.devices}
        return [by_path[path] for path, _ in self._walk_nodes(self._root, ()) if path in by_path]

    def nodes(self, databases: Sequence[str]) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield every path with its kind: DATABASE, DEVICE, TIMESERIES or INTERNAL. A database may have no devices."""
        devices = {device.nodes for device in self.devices}
        roots = {split_path(name) for name in databases}
        seen = set()
        for path, node in self._walk_nodes(self._root, ()):
            seen.add(path)
            if node.series is not None:
                yield path, "TIMESERIES"
            elif path in roots:
                yield path, "DATABASE"
            else:
                yield path, "DEVICE" if path in devices else "INTERNAL"
        yield from ((path, "DATABASE") for path in sorted(roots - seen))

    def _walk_nodes(self, node: _Node, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], _Node]]:
        for name in self.order(list(node.children)):
            child = node.children[name]
            yield (*path, name), child
            yield from self._walk_nodes(child, (*path, name))

    def _find(self, nodes: Sequence[str]) -> SeriesRef | None:
        node = self._root
        for name in nodes[:-1]:
            if name not in node.children:
                return None
            node = node.children[name]
        child = node.children.get(nodes[-1])
        if child is not None and child.series is not None:
            return child.series
        return self._by_alias(node, nodes[-1])

    @staticmethod
    def _by_alias(node: _Node, alias: str) -> SeriesRef | None:
        for child in node.children.values():
            if child.series is not None and child.series.device.labels_of(child.series.series.measurement).alias == alias:
                return replace(child.series, alias=alias)
        return None

    def _walk(self, node: _Node, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], SeriesRef]]:
        return ((child_path, child.series) for child_path, child in self._walk_nodes(node, path) if child.series is not None)

"""The tree of series that a query can read, in IoTDB's order.

IoTDB keeps the children of a node in a `java.util.HashMap` and lists series by walking it. That order decides the order of result
columns, and so the targets of INTO. It is by bucket, then by creation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.model.paths import PathPattern, split_path
from headrace.model.trees import Device, Timeseries
from headrace.model.types import DataType

_INITIAL_CAPACITY: Final = 16
_LOAD_FACTOR: Final = 0.75


@dataclass(frozen=True, slots=True)
class SeriesRef:
    """One series of one device."""

    device: Device
    series: Timeseries

    @property
    def path(self) -> str:
        """The full path."""
        return self.device.series_path(self.series.measurement)

    @property
    def type(self) -> DataType:
        """The type of its values."""
        return self.series.type


def java_hash(text: str) -> int:
    """Return `String.hashCode` with HashMap's spreading, unsigned."""
    return _spread(_string_hash(text))


def _spread(value: int) -> int:
    return value ^ (value >> 16)


def _string_hash(text: str) -> int:
    """Return `String.hashCode`, unsigned."""
    value = 0
    encoded = text.encode("utf-16-be")
    for high, low in zip(encoded[0::2], encoded[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value


def hash_order(names: Sequence[str]) -> list[str]:
    """Sort distinct keys, given in insertion order, into the iteration order of a HashMap."""
    return _bucket_order(names, _capacity(len(names)))


def _capacity(size: int) -> int:
    """Return the number of buckets of a HashMap with this many keys."""
    capacity = _INITIAL_CAPACITY
    while size > capacity * _LOAD_FACTOR:
        capacity *= 2
    return capacity


def list_hash_order(keys: Sequence[tuple[str | None, ...]]) -> list[tuple[str | None, ...]]:
    """Sort distinct lists, given in insertion order, into the iteration order of a HashMap."""
    capacity = _capacity(len(keys))
    return sorted(keys, key=lambda key: _spread(_list_hash(key)) & (capacity - 1))


def _list_hash(key: tuple[str | None, ...]) -> int:
    """Return `List.hashCode`, unsigned."""
    value = 1
    for element in key:
        value = (31 * value + (0 if element is None else _string_hash(element))) & 0xFFFFFFFF
    return value


def sized_hash_order(names: Sequence[str]) -> list[str]:
    """Sort distinct keys into the iteration order of a ConcurrentHashMap that was created for this many."""
    least = len(names) + len(names) // 2 + 1
    return _bucket_order(names, 1 << (least - 1).bit_length())


def _bucket_order(names: Sequence[str], capacity: int) -> list[str]:
    return sorted(names, key=lambda name: java_hash(name) & (capacity - 1))


@dataclass(slots=True)
class _Node:
    """A node of the tree.

    Attributes:
        series: The series that the node is.
        template_series: Of a device that uses a template: its series, in their order. They are no nodes of their own.
    """

    children: dict[str, _Node] = field(default_factory=dict)
    series: SeriesRef | None = None
    template_series: dict[str, SeriesRef] = field(default_factory=dict)


class SeriesTree:
    """Series by path, with wildcard matching."""

    def __init__(self, devices: Iterable[Device]) -> None:
        """Build the tree of devices, given in the order of their creation."""
        self.devices = tuple(devices)
        self._root = _Node()
        for device in self.devices:
            node = self._root
            for name in device.nodes:
                node = node.children.setdefault(name, _Node())
            _add_series(node, device)

    def match(self, pattern: PathPattern) -> list[SeriesRef]:
        """Return the series whose full path matches, in IoTDB's order."""
        if not pattern.has_wildcard:
            exact = self._find(pattern.nodes)
            return [exact] if exact is not None else []
        return [ref for path, ref in self._walk(self._root, ()) if pattern.matches(path)]

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
        for name in hash_order(list(node.children)):
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
        if nodes[-1] in node.template_series:
            return node.template_series[nodes[-1]]
        return self._by_alias(node, nodes[-1])

    @staticmethod
    def _by_alias(node: _Node, alias: str) -> SeriesRef | None:
        for child in node.children.values():
            if child.series is not None and child.series.device.labels_of(child.series.series.measurement).alias == alias:
                return child.series
        return None

    def _walk(self, node: _Node, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], SeriesRef]]:
        for name in hash_order(list(node.children)):
            child = node.children[name]
            if child.series is not None:
                yield (*path, name), child.series
            yield from self._walk(child, (*path, name))
        for name, ref in node.template_series.items():
            yield (*path, name), ref


def _add_series(node: _Node, device: Device) -> None:
    """Add the series of a device to its node."""
    refs = {series.measurement: SeriesRef(device, series) for series in device.series}
    if device.template is not None:
        node.template_series = {name: refs[name] for name in sized_hash_order(list(refs))}
        return
    for name, ref in refs.items():
        node.children.setdefault(name, _Node()).series = ref

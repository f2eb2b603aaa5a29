"""The tree of series that a query can read, in IoTDB's order.

IoTDB keeps the children of a node in a `java.util.HashMap` and lists series by walking it. That order decides the order of result
columns, and so the targets of INTO. The nodes come out of a `ConcurrentHashMap`, are copied into the other map in reverse, and both
keep the nodes of a bucket in a list.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Final

from headrace.model.paths import ANY_LEVELS, PathPattern, States, advance, split_path
from headrace.model.remembering import remembered
from headrace.model.trees import Device, SeriesRef, Timeseries

_INITIAL_CAPACITY: Final = 16
_LOAD_FACTOR: Final = 0.75
Key = tuple[int, str]
"""A key of a Java map with its hash."""
Order = Callable[[Sequence[str]], list[str]]
"""Sorts distinct keys, in insertion order."""


@remembered(1 << 16)
def java_hash(text: str) -> int:
    return _spread(_string_hash(text))


def _spread(value: int) -> int:
    return value ^ (value >> 16)


def _string_hash(text: str) -> int:
    value = 0
    encoded = text.encode("utf-16-be")
    for high, low in zip(encoded[0::2], encoded[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value


def hash_order(names: Sequence[str]) -> list[str]:
    """Sort distinct keys, in insertion order, into the iteration order of a HashMap."""
    return _bucket_order(names, _capacity(len(names)))


def _capacity(size: int) -> int:
    capacity = _INITIAL_CAPACITY
    while size > capacity * _LOAD_FACTOR:
        capacity *= 2
    return capacity


def query_order(names: Sequence[str]) -> list[str]:
    """Sort distinct keys, in insertion order, into the order in which queries list the children of a node."""
    return hash_order(concurrent_order(names)[::-1])


@lru_cache(maxsize=64)
def _ordered(order: Order, names: tuple[str, ...]) -> tuple[str, ...]:
    """Sort the children of a node. Queries of one tree sort the same names again and again."""
    return tuple(order(names))


def concurrent_order(names: Sequence[str]) -> list[str]:
    """Sort distinct keys, in insertion order, into the iteration order of a ConcurrentHashMap."""
    capacity = _INITIAL_CAPACITY
    bins: dict[int, list[Key]] = {}
    for count, key in enumerate(((java_hash(name), name) for name in names), 1):
        bins.setdefault(key[0] & (capacity - 1), []).append(key)
        if count >= capacity * _LOAD_FACTOR:
            bins = {at: half for bin_ in bins.items() for at, half in split_bin(*bin_, capacity)}
            capacity *= 2
    return [name for at in sorted(bins) for _, name in bins[at]]


def split_bin(number: int, keys: Sequence[Key], capacity: int) -> list[tuple[int, list[Key]]]:
    """Split a bin when a ConcurrentHashMap doubles: it keeps the longest tail that stays together, and prepends the other keys."""
    bits = [hash_ & capacity for hash_, _ in keys]
    tail = max((at for at in range(1, len(bits)) if bits[at] != bits[at - 1]), default=0)
    halves: dict[int, list[Key]] = {bits[tail]: list(keys[tail:])}
    for key, bit in zip(keys[:tail], bits, strict=False):
        halves.setdefault(bit, []).insert(0, key)
    return [(number + bit, half) for bit, half in halves.items()]


def list_hash_order(keys: Sequence[tuple[str | None, ...]]) -> list[tuple[str | None, ...]]:
    """Sort distinct lists, in insertion order, into the iteration order of a HashMap."""
    capacity = _capacity(len(keys))
    return sorted(keys, key=lambda key: _spread(_list_hash(key)) & (capacity - 1))


def _list_hash(key: tuple[str | None, ...]) -> int:
    value = 1
    for element in key:
        value = (31 * value + (0 if element is None else _string_hash(element))) & 0xFFFFFFFF
    return value


def template_order(names: Sequence[str]) -> list[str]:
    """Sort the measurements of a device template, in creation order, into IoTDB's order.

    A ConcurrentHashMap collects them, and each node of the cluster copies that one into another, created for their number.
    """
    least = int(1 + len(names) / _LOAD_FACTOR)
    return _bucket_order(concurrent_order(names), 1 << (least - 1).bit_length())


def read_map_order(names: Sequence[str]) -> list[str]:
    """Sort distinct keys into the iteration order of a HashMap that was created for this many, and may have grown since."""
    capacity = 1 << (len(names) - 1).bit_length() if names else 1
    return _bucket_order(names, capacity if len(names) <= capacity * _LOAD_FACTOR else 2 * capacity)


def _bucket_order(names: Sequence[str], capacity: int) -> list[str]:
    return sorted(names, key=lambda name: java_hash(name) & (capacity - 1))


@dataclass(slots=True)
class _Node:
    """An internal node above the series, or a device; `earlier` children were created before the device's series."""

    children: dict[str, _Node] = field(default_factory=dict)
    device: Device | None = None
    earlier: int = 0


@dataclass(frozen=True, slots=True)
class _Schema:
    """The series that some devices share, by measurement; `order` has these in IoTDB's order, for a device without children.

    Those `of_template` come from a device template. They are no nodes of their own then, and come after all nodes.
    """

    series: dict[str, Timeseries]
    order: tuple[str, ...]
    of_template: bool = False


NO_SERIES: Final = _Schema({}, ())
"""How many nodes of a pattern may have been matched."""


class SeriesTree:
    """Series by path, with wildcard matching.

    Only nodes above the series take memory: the series of devices with equal schemas are shared.
    """

    def __init__(self, devices: Iterable[Device], order: Order = query_order) -> None:
        """Build the tree of devices, given in the order of their creation.

        `order` sorts the children of a node. Queries list them by `query_order`, SHOW by `concurrent_order`.
        """
        self.devices = tuple(devices)
        self.order = order
        self._root = _Node()
        self._schemas: dict[tuple[int, bool], _Schema] = {}
        for device in self.devices:
            node = self._root
            for name in device.nodes:
                node = node.children.setdefault(name, _Node())
            node.device, node.earlier = device, len(node.children)

    def match(self, pattern: PathPattern) -> list[SeriesRef]:
        """Return the series whose full path matches, in IoTDB's order."""
        return list(self.iterate(pattern))

    def iterate(self, pattern: PathPattern) -> Iterator[SeriesRef]:
        """Yield the series whose full path matches, in IoTDB's order."""
        if pattern.has_wildcard:
            yield from self._walk(self._root, pattern, frozenset((0,)))
            yield from self._match_aliases(pattern)
        elif (exact := self._find(pattern.nodes)) is not None:
            yield exact

    def names_key(self, device: Device) -> Hashable:
        """Return a key that is equal for devices on which a name matches the same series in the same order."""
        node = self._root
        for name in device.nodes:
            node = node.children[name]
        return device.path if node.children or device.labels else (device.database, id(device.series), device.template is not None)

    def count(self, pattern: PathPattern) -> int:
        """Return the number of series whose full path matches."""
        if not pattern.has_wildcard:
            return len(self.match(pattern))
        return self._count(self._root, pattern.nodes, frozenset((0,))) + sum(1 for _ in self._match_aliases(pattern))

    @cached_property
    def _has_aliases(self) -> bool:
        return any(labels.alias is not None for device in self.devices for labels in device.labels.values())

    def _match_aliases(self, pattern: PathPattern) -> Iterator[SeriesRef]:
        """Yield the series with an alias that is the last node of a pattern with wildcards, which has none itself."""
        if "*" not in pattern.nodes[-1] and self._has_aliases:
            yield from self._walk_aliases(self._root, pattern, frozenset((0,)))

    def _walk_aliases(self, node: _Node, pattern: PathPattern, states: States) -> Iterator[SeriesRef]:
        if node.device is not None and len(pattern.nodes) - 1 in states:
            aliased = self._aliased(node.device, pattern.nodes[-1])
            yield from () if aliased is None else (aliased,)
        for name in self._candidates(node, self._schema(node.device), pattern, states):
            following = advance(pattern.nodes, states, name)
            if following and name in node.children:
                yield from self._walk_aliases(node.children[name], pattern, following)

    def _aliased(self, device: Device, alias: str) -> SeriesRef | None:
        if alias in self._schema(device).series:
            return None
        aliased = (measurement for measurement, labels in device.labels.items() if labels.alias == alias)
        series = next((self._schema(device).series[measurement] for measurement in aliased), None)
        return None if series is None else SeriesRef(device, series, alias)

    def match_devices(self, pattern: PathPattern) -> list[Device]:
        return [device for device in self.devices if pattern.matches(device.nodes)]

    def walk_devices(self) -> Iterator[Device]:
        """Yield the devices in IoTDB's order."""
        yield from self._walk_devices(self._root)

    def nodes(self, databases: Sequence[str]) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield every path with its kind: DATABASE, DEVICE, TIMESERIES or INTERNAL. A database may have no devices."""
        roots = {split_path(name) for name in databases}
        seen = set()
        for path, kind in self._walk_nodes(self._root, ()):
            if path in roots:
                seen.add(path)
            yield path, "DATABASE" if kind != "TIMESERIES" and path in roots else kind
        yield from ((path, "DATABASE") for path in sorted(roots - seen))

    def _schema(self, device: Device | None) -> _Schema:
        """Return the series of a device; devices of an equal schema, as the catalog reads it, share them."""
        if device is None:
            return NO_SERIES
        key = (id(device.series), device.template is not None)
        if key not in self._schemas:
            series = {one.measurement: one for one in device.series}
            order = template_order(list(series)) if key[1] else self.order(list(series))
            self._schemas[key] = _Schema(series, tuple(order), key[1])
        return self._schemas[key]

    def _names(self, node: _Node, schema: _Schema) -> Iterable[str]:
        """Return the names below a node, of series and of nodes, in IoTDB's order."""
        if not node.children:
            return schema.order
        children = tuple(node.children)
        if schema.of_template:
            return list(dict.fromkeys((*_ordered(self.order, children), *schema.order)))
        names = dict.fromkeys((*children[: node.earlier], *schema.series, *children[node.earlier :]))
        return _ordered(self.order, tuple(names))

    def _walk(self, node: _Node, pattern: PathPattern, states: States) -> Iterator[SeriesRef]:
        schema, complete = self._schema(node.device), len(pattern.nodes)
        for name in self._candidates(node, schema, pattern, states):
            following = advance(pattern.nodes, states, name)
            series = schema.series.get(name)
            if series is not None and complete in following:
                assert node.device is not None
                yield SeriesRef(node.device, series)
            if following and name in node.children:
                yield from self._walk(node.children[name], pattern, following)

    def _count(self, node: _Node, pattern: Sequence[str], states: States) -> int:
        """Return the number of series below a node that match what remains of a pattern."""
        schema, last = self._schema(node.device), len(pattern) - 1
        if last in states and pattern[last] in ("*", ANY_LEVELS):
            total = len(schema.series)
        else:
            total = sum(len(pattern) in advance(pattern, states, name) for name in schema.series)
        for name, child in node.children.items():
            following = advance(pattern, states, name)
            total += self._count(child, pattern, following) if following else 0
        return total

    def _candidates(self, node: _Node, schema: _Schema, pattern: PathPattern, states: States) -> Iterable[str]:
        """Return the names below a node that a pattern may match; a single name need not be searched for."""
        if len(states) == 1:
            (state,) = states
            if state == len(pattern.nodes):
                return ()
            name = pattern.nodes[state]
            if "*" not in name or name.startswith("`"):
                return (name,)
        return self._names(node, schema)

    def _walk_devices(self, node: _Node) -> Iterator[Device]:
        for name in self._names(node, self._schema(node.device)) if node.children else ():
            child = node.children.get(name)
            if child is not None:
                if child.device is not None:
                    yield child.device
                yield from self._walk_devices(child)

    def _walk_nodes(self, node: _Node, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
        schema = self._schema(node.device)
        names = self.order(list(node.children)) if schema.of_template else self._names(node, schema)
        for name in names:
            child = node.children.get(name)
            if name in schema.series and not schema.of_template:
                yield (*path, name), "TIMESERIES"
            elif child is not None:
                yield (*path, name), "INTERNAL" if child.device is None else "DEVICE"
            if child is not None:
                yield from self._walk_nodes(child, (*path, name))

    def _find(self, nodes: Sequence[str]) -> SeriesRef | None:
        node = self._root
        for name in nodes[:-1]:
            if name not in node.children:
                return None
            node = node.children[name]
        device = node.device
        if device is None:
            return None
        series = self._schema(device).series.get(nodes[-1])
        return self._aliased(device, nodes[-1]) if series is None else SeriesRef(device, series)

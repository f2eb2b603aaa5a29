"""The order in which series come: that of Java's hash maps, as IoTDB keeps its nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.compute.iotdb.schema import SeriesTree, hash_order, java_hash
from headrace.model.paths import PathPattern, split_path
from headrace.model.trees import Device, Timeseries
from headrace.model.types import BOOL, DOUBLE

SCHEMAS = [
    tuple(Timeseries(name, type_, name) for name in names) for names, type_ in (("ab", DOUBLE), ("ba", BOOL), ("xs1", DOUBLE))
]
PATHS = st.lists(st.sampled_from(["a", "x", "d1", "d2", "d17", "`a.b`"]), min_size=1, max_size=3).map(
    lambda nodes: ("root", *nodes)
)
PATTERNS = st.lists(st.sampled_from(["a", "b", "x", "d1", "d*", "*", "**", "`a.b`"]), min_size=1, max_size=4)


def listed(devices: Sequence[Device]) -> list[tuple[str, ...]]:
    """Return the paths of all series by walking a tree in which each series is a node."""
    root: dict[str, Any] = {}
    series = {(*device.nodes, one.measurement) for device in devices for one in device.series}
    for device in devices:
        for path in (device.nodes, *((*device.nodes, one.measurement) for one in device.series)):
            node = root
            for name in path:
                node = node.setdefault(name, {})

    def walk(node: dict[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for name in hash_order(list(node)):
            if (*path, name) in series:
                yield (*path, name)
            yield from walk(node[name], (*path, name))

    return list(walk(root, ()))


@given(
    paths=st.dictionaries(PATHS, st.sampled_from(SCHEMAS), min_size=1, max_size=15),
    patterns=st.lists(PATTERNS, min_size=1, max_size=5),
)
def test_series_come_as_from_a_tree_in_which_each_is_a_node(
    paths: dict[tuple[str, ...], tuple[Timeseries, ...]], patterns: list[list[str]]
) -> None:
    devices = [Device("root.sg", ".".join(nodes), series) for nodes, series in paths.items()]
    series = SeriesTree(devices)
    for nodes in patterns:
        pattern = PathPattern(("root", *nodes))
        expected = [path for path in listed(devices) if pattern.matches(path)]
        assert [split_path(ref.path) for ref in series.match(pattern)] == expected
        assert series.count(pattern) == len(expected)


def tree(*paths: str) -> SeriesTree:
    """Return a tree of series by their full paths."""
    devices: dict[str, list[Timeseries]] = {}
    for path in paths:
        device, _, measurement = path.rpartition(".")
        devices.setdefault(device, []).append(Timeseries(measurement, DOUBLE, measurement))
    return SeriesTree(Device("root.sg", path, tuple(series)) for path, series in devices.items())


def matched(tree_: SeriesTree, pattern: str) -> list[str]:
    return [ref.path for ref in tree_.match(PathPattern(split_path(pattern)))]


@pytest.mark.parametrize(("text", "value"), [("", 0), ("a", 97), ("d1", 3149), ("temperature", 321701236 ^ 321701236 >> 16)])
def test_strings_hash_as_in_java(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_names_come_by_bucket() -> None:
    assert hash_order(["wf01", "wf02"]) == ["wf02", "wf01"]
    assert hash_order(["d2", "d1", "g"]) == ["g", "d1", "d2"]


def test_wildcards_walk_the_tree() -> None:
    series = tree("root.sg.d1.s1", "root.sg.d1.s2", "root.sg.d2.s1", "root.sg.g.d1.s1")
    assert matched(series, "root.sg.*.s1") == ["root.sg.d1.s1", "root.sg.d2.s1"]
    assert matched(series, "root.sg.**.s1") == ["root.sg.g.d1.s1", "root.sg.d1.s1", "root.sg.d2.s1"]
    assert matched(series, "root.**") == ["root.sg.g.d1.s1", "root.sg.d1.s1", "root.sg.d1.s2", "root.sg.d2.s1"]
    assert matched(series, "root.sg.d*.s2") == ["root.sg.d1.s2"]
    assert matched(series, "root.sg.d1.s3") == []

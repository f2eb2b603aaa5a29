"""The order in which series come: that of Java's hash maps, as IoTDB keeps its nodes."""

from __future__ import annotations

import pytest

from headrace.compute.iotdb.schema import SeriesTree, hash_order, java_hash
from headrace.model.paths import PathPattern, split_path
from headrace.model.trees import Device, Timeseries
from headrace.model.types import DOUBLE


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

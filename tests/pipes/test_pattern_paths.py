"""Cutting statements to the series that match a pattern."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.tree_statements import TreeStatement
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.sources.pattern_paths import covers, cut, matches_device, remainders
from headrace.pipes.sources.patterns import pattern_of
from headrace.sql import parse, to_sql

CASES = [
    ("root", "CREATE DATABASE root.db", ["CREATE DATABASE root.db"]),
    ("root.db.d1", "CREATE DATABASE root.db", ["CREATE DATABASE root.db"]),
    ("root.db.", "CREATE DATABASE root.db2", []),
    ("root.**.s", "CREATE DATABASE root.db2", ["CREATE DATABASE root.db2"]),
    ("root.*.d1.s", "CREATE DATABASE root.db.d2", []),
    ("root.db", "DELETE DATABASE root.db", ["DELETE DATABASE root.db"]),
    ("root.db.**", "DELETE DATABASE root.db", ["DELETE DATABASE root.db"]),
    ("root.db.d1.", "DELETE DATABASE root.db", ["DELETE TIMESERIES root.db.d1.**"]),
    ("root.db.d1", "DELETE DATABASE root.db", ["DELETE TIMESERIES root.db.d1*", "DELETE TIMESERIES root.db.d1*.**"]),
    ("root.db.d1.s", "DELETE DATABASE root.db2", []),
    (
        "root.db.d1.`a.b`",
        "DELETE DATABASE root.db",
        ["DELETE TIMESERIES root.db.d1.`a.b`", "DELETE TIMESERIES root.db.d1.`a.b`.**"],
    ),
    ("root.db.`d.1`.s", "DELETE DATABASE root.db", ["DELETE TIMESERIES root.db.`d.1`.s*", "DELETE TIMESERIES root.db.`d.1`.s*.**"]),
    ("root.**.s", "DELETE DATABASE root.db", ["DELETE TIMESERIES root.db.**.s", "DELETE TIMESERIES root.db.s"]),
    ("root.db.d1.s1", "CREATE TIMESERIES root.db.d1.s1 INT32", ["CREATE TIMESERIES root.db.d1.s1 INT32"]),
    ("root.db.d1.s1", "CREATE TIMESERIES root.db.d1.s2 INT32", []),
    ("root.db.*.a", "CREATE ALIGNED TIMESERIES root.db.d(a INT32, b INT32)", ["CREATE ALIGNED TIMESERIES root.db.d(a INT32)"]),
    (
        "root.db.d1",
        "DELETE TIMESERIES root.db.d1.s, root.db.d2.s, root.db.d10.s",
        ["DELETE TIMESERIES root.db.d1.s, root.db.d10.s"],
    ),
    ("root.db.d1.", "DELETE TIMESERIES root.db.d2.s", []),
    ("root.db.d1.", "ALTER TIMESERIES root.db.d1.s DROP 'k'", ["ALTER TIMESERIES root.db.d1.s DROP 'k'"]),
    ("root.db.d1.", "ALTER TIMESERIES root.db.d2.s DROP 'k'", []),
    ("root.db.d1.", "CREATE DEVICE TEMPLATE t (s INT32)", ["CREATE DEVICE TEMPLATE t (s INT32)"]),
    ("root.db.d1.", "DROP DEVICE TEMPLATE t", ["DROP DEVICE TEMPLATE t"]),
    ("root.db.d1.", "SET DEVICE TEMPLATE t TO root.db", ["SET DEVICE TEMPLATE t TO root.db"]),
    ("root.db.d1.", "UNSET DEVICE TEMPLATE t FROM root.db.d2", []),
    (
        "root.db.d1.s",
        "CREATE TIMESERIES USING DEVICE TEMPLATE ON root.db.d1",
        ["CREATE TIMESERIES USING DEVICE TEMPLATE ON root.db.d1"],
    ),
    ("root.db.d1.e.s", "CREATE TIMESERIES USING DEVICE TEMPLATE ON root.db.d1", []),
    ("root.db.d1", "DEACTIVATE DEVICE TEMPLATE t FROM root.db.d1, root.db.d2", ["DEACTIVATE DEVICE TEMPLATE t FROM root.db.d1"]),
    ("root", "SET TTL TO root.db.** 5", ["SET TTL TO root.db.** 5"]),
    ("root.db.d1.", "SET TTL TO root.db.** 5", ["SET TTL TO root.db.d1 5", "SET TTL TO root.db.d1.** 5"]),
    ("root.db.d1.s", "SET TTL TO root.db.d1 5", ["SET TTL TO root.db.d1 5"]),
    ("root.db.d1", "SET TTL TO root.db.** 5", []),
    ("root.db.d1.", "UNSET TTL FROM root.db.d2", []),
    ("root.db.d1.", "UNSET TTL FROM root.db.d1.e.**", ["UNSET TTL FROM root.db.d1.e.**"]),
]


@pytest.mark.parametrize(("pattern", "statement", "expected"), CASES)
def test_statements_are_cut_to_what_is_transferred(pattern: str, statement: str, expected: list[str]) -> None:
    own = pattern_of(PipeAttributes({"path" if "*" in pattern else "pattern": pattern}))
    parsed = parse(statement, "iotdb")
    assert isinstance(parsed, TreeStatement)
    assert [to_sql(one, "iotdb") for one in cut(parsed, own)] == expected


nodes = st.sampled_from(["a", "b", "ab"])
patterns = st.lists(st.sampled_from(["a", "b", "*", "a*", "**"]), min_size=1, max_size=4).map(lambda own: ".".join(["root", *own]))
prefixes = st.text(alphabet="ab.", max_size=5).map(lambda text: f"root.{text}").filter(lambda text: ".." not in text)
devices = st.lists(nodes, min_size=1, max_size=3)


@given(patterns.map(lambda text: {"path": text}) | prefixes.map(lambda text: {"pattern": text}), devices, devices, nodes)
def test_what_lies_below_a_path_is_found(attributes: dict[str, str], above: list[str], below: list[str], measurement: str) -> None:
    pattern = pattern_of(PipeAttributes(attributes))
    path, device = ".".join(["root", *above]), ".".join(["root", *above, *below])
    if covers(pattern, path):
        assert pattern.matches(path, measurement)
        assert pattern.matches(device, measurement)
    if pattern.matches(path, measurement):
        assert matches_device(pattern, path)
    if pattern.matches(device, measurement):
        assert remainders(pattern, path)

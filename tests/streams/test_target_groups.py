"""The subtables of many groups, new and cached ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headrace.model.failpoints import calling
from headrace.runtime.table_removal import drop_subtables
from headrace.storage.delta import keys
from headrace.streams.definition.define import StreamPlan
from headrace.streams.sinks import target_groups
from headrace.streams.sinks.target_groups import TargetGroups
from tests.streams.environment import StreamEnvironment, open_environment

SOURCES = [f"r{number:04}" for number in range(300)]


def no_spark() -> SparkSession:
    raise AssertionError("subtables are created without Spark")


@pytest.fixture
def env(tmp_path: Path) -> Iterator[StreamEnvironment]:
    with open_environment(tmp_path, no_spark) as opened:
        opened.catalog.subtables.add("db", "readings", SOURCES)
        yield opened


@pytest.fixture
def plan(env: StreamEnvironment) -> StreamPlan:
    return env.create(
        "create stream s into out subtable(concat('x.', tbname)) as "
        "select _wstart ts, count(*) n from readings partition by tbname interval(1m)"
    )


def windows(plan: StreamPlan, sources: list[str]) -> pa.Table:
    """Return a window of each of some subtables of the source."""
    assert plan.groups.name is not None
    return pa.table({plan.groups.keys[0].column: sources, plan.groups.name: [f"x.{name}" for name in sources]})


def targets(env: StreamEnvironment, sources: list[str]) -> list[tuple[str, int]]:
    """Return the subtable and the id of the group of each of some subtables of the source."""
    uids = {name: subtable.uid for name, subtable in env.catalog.subtables.find("db", sources).items()}
    return [(f"x_{name}_out_{uids[name]}", uids[name]) for name in sources]


def tags(env: StreamEnvironment, plan: StreamPlan) -> dict[str, int]:
    return {row["tbname"]: int(row["group_id"]) for row in env.tables.tags.read(plan.target).to_pylist()}


@pytest.mark.parametrize("limit", [1, 70, 1000])
def test_each_group_gets_its_subtable_and_its_tag(
    env: StreamEnvironment, plan: StreamPlan, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(target_groups, "MAX_NAMES", limit)
    groups = TargetGroups(env.context, plan)
    for sources in (SOURCES[10:20] * 2, SOURCES[15:40][::-1], SOURCES[::-7] + SOURCES, SOURCES[5:9]):
        names, ids = zip(*targets(env, sources), strict=True)
        some = windows(plan, sources)
        assert groups.assign(some).to_pylist() == list(names)
        identified_ids, identified_names = groups.identify(some)
        assert (identified_ids.tolist(), identified_names.to_pylist()) == (list(ids), list(names))
    assert [subtable.name for subtable in env.catalog.subtables.all("db", "out")] == sorted(dict(targets(env, SOURCES)))
    assert tags(env, plan) == dict(targets(env, SOURCES))


def test_groups_of_dropped_subtables_have_none(env: StreamEnvironment, plan: StreamPlan) -> None:
    names = [name for name, _ in targets(env, SOURCES)]
    env.catalog.subtables.drop("db", SOURCES[::2])
    groups = TargetGroups(env.context, plan)
    expected = [None if index % 2 == 0 else name for index, name in enumerate(names)]
    for first, last in ((1, 2), (0, 100), (0, 300)):
        some = windows(plan, SOURCES[first:last])
        assert groups.assign(some).to_pylist() == expected[first:last]
        ids, identified = groups.identify(some)
        assert identified.to_pylist() == expected[first:last]
        assert (ids != 0).tolist() == [name is not None for name in expected[first:last]]
    assert sorted(tags(env, plan)) == sorted(names[1::2])


def test_a_subtable_that_exists_again_is_identified(env: StreamEnvironment, plan: StreamPlan) -> None:
    groups = TargetGroups(env.context, plan)
    (name, uid), *_ = targets(env, SOURCES[:1])
    env.catalog.subtables.drop("db", SOURCES[:1])
    assert groups.identify(windows(plan, SOURCES[:2]))[0][0] == 0
    env.catalog.subtables.add("db", "readings", SOURCES[:1])
    ids, names = groups.identify(windows(plan, SOURCES[:2]))
    assert (ids[0], names[0].as_py()) == (uid, name)


@pytest.mark.parametrize("moment", ["before", "during"])
def test_subtables_that_were_dropped_before_or_during_a_commit_exist_after_it(
    env: StreamEnvironment, plan: StreamPlan, moment: str
) -> None:
    groups, some, expected = TargetGroups(env.context, plan), windows(plan, SOURCES[:3]), targets(env, SOURCES[:3])
    with groups.committing():
        groups.assign(some)

    def drop() -> None:
        drop_subtables(env.context, plan.target, plan.target_database, [name for name, _ in expected[:2]])

    if moment == "before":
        drop()
    with groups.committing():
        assert groups.assign(some).to_pylist() == [name for name, _ in expected]
        if moment == "during":
            drop()
    assert [subtable.name for subtable in env.catalog.subtables.all("db", "out")] == sorted(dict(expected))
    assert tags(env, plan) == dict(expected)


def test_a_stream_writes_to_no_subtable_that_was_dropped_while_it_ran(env: StreamEnvironment) -> None:
    query = "select _wstart ts, count(*) n from readings partition by tbname interval(10s)"
    plan = env.create(f"create stream at_once trigger at_once into out as {query}")
    env.insert([("d0", 0, 1, None)])
    env.settle()
    (subtable,) = env.catalog.subtables.all("db", "out")
    drop_subtables(env.context, plan.target, plan.target_database, [subtable.name])
    env.insert([("d0", 10_000, 1, None)])
    env.settle()
    assert env.catalog.subtables.all("db", "out") == [subtable]
    assert tags(env, plan) == {subtable.name: env.catalog.subtables.get("db", "d0").uid}
    rows = env.tables.scan(plan.target)
    assert rows["tbname"].to_pylist() == [subtable.name]


def test_rows_that_a_stream_writes_while_a_subtable_is_dropped_are_dropped_too(env: StreamEnvironment) -> None:
    plan = env.create("create stream at_once trigger at_once into out as select _wstart ts, count(*) n from readings interval(10s)")
    env.insert([("d0", 0, 1, None)])
    env.settle()
    (subtable,) = env.catalog.subtables.all("db", "out")

    def write() -> None:
        env.insert([("d0", 10_000, 1, None)])
        env.settle()

    with calling("tables.subtables.emptied", write):
        drop_subtables(env.context, plan.target, plan.target_database, [subtable.name])
    assert env.catalog.subtables.all("db", "out") == []
    assert env.tables.scan(plan.target).num_rows == 0
    env.insert([("d0", 20_000, 1, None)])
    env.settle()
    assert env.catalog.subtables.all("db", "out") == [subtable]
    assert env.tables.scan(plan.target).num_rows == 1


@pytest.mark.parametrize("added", [[*range(300)], [*range(0, 300, 2)], [299]])
def test_tags_that_a_crash_has_left_out_are_set(env: StreamEnvironment, plan: StreamPlan, added: list[int]) -> None:
    env.catalog.subtables.add("db", "out", [name for name, _ in targets(env, [SOURCES[index] for index in added])])
    names = TargetGroups(env.context, plan).assign(windows(plan, SOURCES))
    assert names.to_pylist() == [name for name, _ in targets(env, SOURCES)]
    assert tags(env, plan) == dict(targets(env, SOURCES))


def test_groups_of_one_name_share_a_subtable_and_the_last_one_sets_its_tag(
    env: StreamEnvironment, plan: StreamPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "MIN_CHECKED_ROWS", 0)
    shared, other = (f"t_{letter * 32}" for letter in "ba")
    names = [shared, other, shared]
    some = windows(plan, SOURCES[:3]).set_column(1, plan.groups.columns[1], pa.array(names))
    assert TargetGroups(env.context, plan).assign(some).to_pylist() == names
    (_, other_id), (_, shared_id) = targets(env, SOURCES[1:3])
    assert tags(env, plan) == {shared: shared_id, other: other_id}

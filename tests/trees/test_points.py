"""All ways of writing points ask for the right to write their series, once, and write nothing without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

import headrace
from headrace.errors import Error, PermissionDeniedError
from headrace.model.access import Grant, Permissions, Principal, Privilege
from headrace.model.jobs import JobDefinition
from headrace.model.trees import TREE_TABLE, DeviceSeries
from headrace.queries import executions
from headrace.queries.kind import CONTINUOUS_QUERY
from headrace.service.rights import Right
from headrace.settings import load
from tests.support.interpreted import interpret_plans

interpret_plans()
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

START: Final = 1_700_000_040_000
SECONDS: Final = 60
DEVICE: Final = "root.plant.target"
INTO: Final = f"select s1 into {DEVICE}(s1) from root.plant.source"
QUERY: Final = f"begin select count(s1) into {DEVICE}(s1) from root.plant.source group by (1s) end"


@pytest.fixture(params=[0, 20], ids=["on the driver", "on executors"])
def plant(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[headrace.Connection]:
    """A connection to a tree with a minute of points of `source`, more than may go through the driver in one of the cases."""
    settings = load(home=tmp_path / "home", driver_rows=request.param or 1_000)
    with headrace.connect(dialect="iotdb", settings=settings, clock=headrace.ManualClock(START)) as connection:
        rows = ", ".join(f"({START + second * 1000}, {second})" for second in range(SECONDS))
        connection.execute(f"insert into root.plant.source(time, s1) values {rows}")
        connection.execute(f"create cq q {QUERY.replace('begin', f'resample every {SECONDS}s begin')}")
        connection.clock.advance(SECONDS * 1000)
        yield connection


def query(connection: headrace.Connection, name: str = "q") -> JobDefinition:
    return connection.session.context.catalog.jobs.get("", name, CONTINUOUS_QUERY).definition


def load_file(connection: headrace.Connection, folder: Path) -> None:
    path = folder / "rows.csv"
    path.write_text("time,s1\n1,5\n2,6\n")
    connection.load(path, into="root.plant", device=DEVICE)


def execute_query(connection: headrace.Connection, _: Path) -> None:
    executions.execute(connection.session.context, query(connection), START + SECONDS * 1000, "test")


def execute_queries_together(connection: headrace.Connection, _: Path) -> None:
    (error,) = executions.execute_together(connection.session.context, [(query(connection), [START + SECONDS * 1000])], "test")
    if error is not None:
        raise error


WAYS: dict[str, Callable[[headrace.Connection, Path], object]] = {
    "INSERT": lambda connection, _: connection.execute(f"insert into {DEVICE}(time, s1) values (1, 5), (2, 6)"),
    "load": load_file,
    "append": lambda connection, _: connection.append([{"time": 1, "s1": 5}], into="root.plant", device=DEVICE),
    "INTO": lambda connection, _: connection.execute(INTO),
    "INTO by device": lambda connection, _: connection.execute(f"{INTO} align by device"),
    "continuous query": execute_query,
    "continuous queries together": execute_queries_together,
    "backfill": lambda connection, _: connection.backfill(cq="q"),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_writing_asks_for_the_right_to_write_its_series(plant: headrace.Connection, way: str, tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []

    def authorize(series: Sequence[DeviceSeries]) -> None:
        asked.extend((device.path, new.measurement) for device in series for new in device.series)
        raise PermissionDeniedError("vera may not write root.plant.target.s1", hint="ask for the right")

    context, state = plant.session.context, plant.session
    table = context.catalog.tables.get("root.plant", TREE_TABLE)
    version = context.tables.version(table)
    state.context = replace(context, authorize_points=authorize)
    with pytest.raises(Error, match="vera may not write"):
        WAYS[way](plant, tmp_path)
    assert asked == [(DEVICE, "s1")]
    assert context.catalog.trees.find("root.plant", [DEVICE]) == {}
    assert context.tables.version(table) == version
    state.context = context
    WAYS[way](plant, tmp_path)
    assert [count > 0 for (count,) in plant.execute(f"select count(s1) from {DEVICE}").fetchall()] == [True]


@pytest.mark.parametrize("way", [way for way in WAYS if way != "backfill"])
def test_a_session_asks_its_authorizer_for_the_series(plant: headrace.Connection, way: str, tmp_path: Path) -> None:
    class NoWrites:
        def authorize(self, principal: Principal, rights: Sequence[Right]) -> None:
            denied = [right for right in rights if right.action is Privilege.WRITE_DATA]
            if denied:
                raise PermissionDeniedError(f"{principal.name} has no {denied[0]}")

        def permissions(self, principal: Principal) -> Permissions:
            return Permissions(principal.name, (("", Grant(Privilege.READ_DATA, "root.**")),))

    context = plant.session.context
    with (
        headrace.connect(
            dialect="iotdb", settings=context.settings, clock=plant.clock, principal=Principal("vera"), authorizer=NoWrites()
        ) as connection,
        pytest.raises(Error, match="vera has no WRITE_DATA on "),
    ):
        WAYS[way](connection, tmp_path)
    assert context.catalog.trees.find("root.plant", [DEVICE]) == {}


def test_of_two_queries_that_create_a_series_with_different_types_the_second_fails(plant: headrace.Connection) -> None:
    plant.execute(f"create cq r resample every {SECONDS}s {QUERY.replace('count', 'avg')}")
    plant.clock.advance(SECONDS * 1000)
    context, instant = plant.session.context, START + 2 * SECONDS * 1000
    first, second = query(plant, "q"), query(plant, "r")
    plant.execute(f"insert into root.plant.source(time, s1) values ({instant - 1000}, 1), ({instant - 2000}, 2)")
    created, refused = executions.execute_together(context, [(first, [instant]), (second, [instant])], "test")
    assert created is None
    assert refused is not None
    assert "not compatible with the data type of source column" in refused.message
    assert plant.execute(f"select count(s1) from {DEVICE}").fetchall() == [(SECONDS,)]

"""A condition on tags has the same meaning in DELETE as in a query."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.errors import Error, NotFoundError, TypeMismatchError
from headrace.service.subtable_filter import SubtableFilter
from tests.support.drawing import SEED, TAKES_ALL

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

START = 1_700_000_000_000
TAGS = {
    "dev1": ("'north'", "1", "1.5", "true", f"{START}"),
    "dev2": ("'7'", "-2", "null", "false", "null"),
    "dev3": ("null", "null", "0", "null", f"{START - 1}"),
    "dev4": ("'n_x'", "3", "-0.5", "true", "'2023-11-14 22:13:20'"),
    "dev5": ("''", "0", "2", "false", f"{START + 1}"),
}
CONDITIONS = (
    "place = 'north'",
    "place <> 'north'",
    "not (place = 'north')",
    "place is null or floor > 1",
    "place in ('7', 'north', null)",
    "place not in ('7', 'north')",
    "place like 'n%'",
    r"place like 'n\_%'",
    "place match '^n.*h$'",
    "place = 7",
    "place + 1 = 8",
    "floor / 2 > 0.4",
    "floor % 2 = 1",
    "floor & 1 = 1",
    "floor between -2 and 0",
    "not (floor between -2 and 0)",
    "-floor > 0",
    "height = 1.5 or height / 0 is null",
    "roofed",
    "not roofed",
    "roofed = 1",
    "roofed is null",
    "case when floor > 0 then 'up' else place end = 'up'",
    "char_length(place) = 5",
    "length(place) > 0",
    "ascii(place) = 110",
    "concat(place, tbname) = 'northdev1'",
    "upper(tbname) = 'DEV2'",
    "cast(floor as varchar(10)) = '3'",
    "built < '2023-11-14 22:13:20'",
    f"built = {START}",
    "built <= now",
    "tbname in ('dev1', 'dev5') and floor >= 0",
    "tbname = 'dev3' or place = ''",
    "floor * 10 between 5 and 40 and tbname > 'dev1'",
    "crc32(place) > 0",
)


@pytest.fixture(scope="module")
def buildings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.Connection]:
    with headrace.connect(tmp_path_factory.mktemp("deletes"), clock=headrace.ManualClock(START)) as opened:
        opened.execute("create database d")
        opened.execute("use d")
        opened.execute(
            "create stable b (ts timestamp, a int) tags (place varchar(20), floor int, height double, roofed bool, built timestamp)"
        )
        for name, tags in TAGS.items():
            opened.execute(f"create table {name} using b tags ({', '.join(tags)})")
        yield opened


def fill(connection: headrace.Connection) -> None:
    connection.execute("insert into " + " ".join(f"{name} values ({START}, 1)" for name in TAGS))


@pytest.mark.parametrize("condition", CONDITIONS if TAKES_ALL else random.Random(SEED).sample(CONDITIONS, len(CONDITIONS) // 3))
def test_delete_removes_the_rows_that_the_query_returns(buildings: headrace.Connection, condition: str) -> None:
    fill(buildings)
    matching = sorted(buildings.execute(f"select tbname from b where {condition}").fetchall())
    assert buildings.execute(f"delete from b where {condition}").rowcount == len(matching)
    assert sorted((name,) for name in TAGS if name not in stored_names(buildings)) == matching


def stored_names(connection: headrace.Connection) -> set[str]:
    """Return the subtables that have rows, without a query."""
    context = connection.session.context
    table = context.catalog.tables.get("d", "b")
    return set(context.tables.scan(table, columns=["tbname"])["tbname"].to_pylist())


@pytest.mark.parametrize("condition", CONDITIONS)
def test_both_engines_choose_the_same_subtables(
    buildings: headrace.Connection, condition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(buildings)
    by_default = buildings.execute("explain delete from b where " + condition).fetchall()
    monkeypatch.setattr(SubtableFilter, "by_duckdb", refuse)
    assert buildings.execute("explain delete from b where " + condition).fetchall() == by_default


def refuse(*_: object) -> list[str]:
    raise headrace.NotSupportedError("not with DuckDB")


@pytest.mark.parametrize(
    ("condition", "error"),
    [
        ("getenv('HOME') <> ''", NotFoundError),
        ("read_text('{file}') is not null", NotFoundError),
        ("place in (select content from read_text('{file}'))", Error),
        ("tbname = (select 'dev1')", Error),
        ("built = 'no instant'", TypeMismatchError),
        ("count(*) > 0", Error),
        ("floor -> 'x' = 1", TypeMismatchError),
    ],
)
def test_a_condition_invalid_in_queries_is_refused(
    buildings: headrace.Connection, tmp_path: Path, condition: str, error: type[Error]
) -> None:
    file = tmp_path / "secret"
    file.write_text("dev1")
    fill(buildings)
    with pytest.raises(error):
        buildings.execute(f"delete from b where {condition.format(file=file)}")
    assert len(stored_names(buildings)) == len(TAGS)

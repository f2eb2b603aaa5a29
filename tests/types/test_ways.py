"""What goes in by any way comes out, by any way."""

from __future__ import annotations

import json

import pytest

from tests.types.house import House
from tests.types.values import TDENGINE, TREE
from tests.types.ways import COLUMNS, STORED, TABLE, WAYS, Way, line_field
from tests.types.ways_iotdb import NAMES, TREE_WAYS, TreeWay

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_what_goes_into_a_table_comes_out(table: House, way: Way) -> None:
    rows = table.rows(f"select cast(_ts as bigint), {COLUMNS} from {TABLE} where way = '{way.name}' order by _ts")
    names = [type_.name for type_ in TDENGINE]
    assert {tick: dict(zip(names, values, strict=True)) for tick, *values in rows} == dict(way.stored())
    types = {type(value) for row in rows for value in row[1:]}
    assert types == {type(value) for _, values in way.stored() for value in values.values()}


@pytest.mark.parametrize("kind", ["telnet", "json"])
def test_points_of_opentsdb_come_out(table: House, kind: str) -> None:
    """A metric has the type of its values: telnet has suffixes for numbers, JSON numbers are DOUBLE."""
    types = [type_ for type_ in TDENGINE if type_.name in ("i64", "u64", "f", "d") and (kind == "telnet" or type_.name == "d")]
    for type_ in types:
        metric = f"{kind}_{type_.name}"
        points = list(enumerate(type_.values, 1_700_000_000_000))
        if kind == "telnet":
            content = "\n".join(f"{metric} {time} {line_field(type_.name, value)} host=a" for time, value in points)
        else:
            content = json.dumps(
                [{"metric": metric, "timestamp": time, "value": value, "tags": {"host": "a"}} for time, value in points]
            )
        table.post(f"/opentsdb/v1/put/{kind}/d", content)
        assert [value for (value,) in table.rows(f"select _value from {metric} order by _ts")] == list(type_.values)


@pytest.mark.parametrize("way", TREE_WAYS, ids=lambda way: way.name)
def test_what_goes_into_a_tree_comes_out(devices: House, way: TreeWay) -> None:
    rows = devices.tree.execute(f"select {', '.join(NAMES)} from {way.device}").fetchall()
    assert [dict(zip(NAMES, values, strict=True)) for _, *values in rows] == [values for _, values in way.rows()]


def test_every_type_of_a_dialect_is_in_the_matrix() -> None:
    from headrace.model.tree_types import TREE_TYPES
    from headrace.model.types import TypeKind

    assert len(STORED) == 4 * len(WAYS) - 1
    assert {type_.sql.split("(")[0] for type_ in TDENGINE} == {str(kind) for kind in TypeKind} - {"JSON", "DATE"}
    assert {type_.sql for type_ in TREE} == set(TREE_TYPES)

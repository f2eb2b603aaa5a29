"""`StateTable`: whatever is replaced, it has the rows of a plain list, finds them by key, and knows what has changed."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.streams.state.hashing import hash_column, hash_rows
from headrace.streams.state.tables import ROW_ID, StateTable

SCHEMA = pa.schema([("p0", pa.string()), ("p1", pa.int32()), ("v", pa.int64())])
KEY = st.tuples(st.sampled_from(["a", "b", "ab", "", None]), st.sampled_from([0, 1, None]))
CHANGE = st.tuples(st.lists(st.integers(0, 200), max_size=8, unique=True), st.lists(KEY, max_size=8))


def rows(keys: list[tuple[str | None, int | None]], first: int = 0) -> pa.Table:
    """Rows with these keys, whose value is their number."""
    values = [{"p0": p0, "p1": p1, "v": first + number} for number, (p0, p1) in enumerate(keys)]
    return pa.Table.from_pylist(values, schema=SCHEMA)


@given(st.lists(KEY, max_size=20), st.lists(CHANGE, max_size=12), st.integers(0, 12), st.lists(KEY, max_size=3))
def test_a_table_has_the_rows_of_a_list(
    start: list[tuple[Any, Any]], changes: list[tuple[list[int], list[tuple[Any, Any]]]], saved: int, groups: list[tuple[Any, Any]]
) -> None:
    table, expected, next_id = StateTable.of(rows(start), ["p0", "p1"]), dict(enumerate(start)), len(start)
    before, saved_rows = table, {}
    for number, (picks, added) in enumerate(changes):
        if number == saved:
            table = table.saved_as("file")
            saved_rows = dict(expected)
        live = sorted(expected)
        removed = sorted({live[pick % len(live)] for pick in picks}) if live else []
        table = table.replace(np.array(removed, np.int64), rows(added, next_id))
        for id_ in removed:
            del expected[id_]
        expected |= {next_id + index: key for index, key in enumerate(added)}
        next_id += len(added)
    ids = np.array(sorted(expected), np.int64)
    assert table.num_rows == len(expected)
    assert table.ids().tolist() == ids.tolist()
    assert table.to_table().to_pylist() == [{"p0": expected[id_][0], "p1": expected[id_][1], "v": id_} for id_ in ids.tolist()]
    assert table.take(ids[::2])["v"].to_pylist() == ids[::2].tolist()
    of_groups = {id_ for id_, key in expected.items() if key in groups}
    assert set(table.matching(rows(groups)).tolist()) >= of_groups
    assert table.where(lambda part: part["v"].to_numpy() % 2 == 0).tolist() == [id_ for id_ in ids.tolist() if id_ % 2 == 0]
    assert before.to_table().num_rows == len(start), "an older table stays as it was"
    if table.origin is not None:
        new = table.to_table(from_id=table.saved_id, numbered=True)
        assert new[ROW_ID].to_pylist() == [id_ for id_ in ids.tolist() if id_ not in saved_rows]
        assert table.removed_since().tolist() == sorted(set(saved_rows) - set(expected))


@given(st.lists(KEY, min_size=1, max_size=40))
def test_a_key_finds_only_its_own_rows_but_for_equal_hashes(keys: list[tuple[Any, Any]]) -> None:
    table = StateTable.of(rows(keys), ["p0", "p1"])
    ids = table.matching(rows(keys[:1]))
    assert [keys[id_] for id_ in ids.tolist()] == [key for key in keys if key == keys[0]]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.array([1, None, 2], pa.int32()), pa.array([1, None, 2], pa.int64())),
        (pa.array(["x", None, ""], pa.string()), pa.array(["x", None, ""], pa.large_string())),
        (pa.array(["x", None, "x"], pa.string()), pa.array(["x", None, "x"], pa.string()).dictionary_encode()),
        (pa.array([0.0, float("nan"), 1.0]), pa.array([-0.0, float("nan"), 1.0])),
        (pa.array([b"x", b"\x00", None]), pa.array([b"y", b"x", b"\x00", None]).slice(1)),
        (pa.array([True, None, False]), pa.array([False, True, None, False]).slice(1)),
        (pa.array([Decimal("1.20"), None]), pa.array([None, Decimal("1.20"), None]).slice(1)),
        (pa.array([0, None], pa.timestamp("us", "UTC")), pa.array([0, None], pa.timestamp("us", "UTC"))),
    ],
)
def test_equal_values_have_equal_hashes(first: pa.Array, second: pa.Array) -> None:
    hashes = hash_column(pa.chunked_array([first]))
    assert hashes.tolist() == hash_column(pa.chunked_array([second])).tolist()
    assert len(set(hashes.tolist())) == len(set(map(str, first.to_pylist())))


@given(st.lists(st.text(max_size=6), unique=True, min_size=2, max_size=300))
def test_different_texts_have_different_hashes(texts: list[str]) -> None:
    hashes = hash_rows(pa.table({"p0": pa.array(texts, pa.string())}), ["p0"])
    assert len(np.unique(hashes)) == len(texts)

"""Staged files are compared only where they may have keys in common."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.model.tables import TBNAME
from headrace.storage.delta import keys, staging
from headrace.storage.delta.staged_files import StagedFile, stage_rows
from headrace.storage.types import rows_schema
from tests.storage.samples import METERS, POWER, START, read, rows

SCHEMA = rows_schema(METERS, POWER)
KEYS = st.sets(st.tuples(st.sampled_from(["d1", "d2", "d3", "d4"]), st.integers(0, 40)), min_size=1, max_size=12)


def stage(uri: Path, key_sets: list[set[tuple[str, int]]]) -> list[StagedFile]:
    """Stage a file for each set of keys."""
    uri.mkdir(exist_ok=True)
    tables = [rows([{TBNAME: name, "ts": START + at, "a": at, "b": 0.5} for name, at in sorted(own)]) for own in key_sets]
    return [stage_rows(table, METERS, str(uri)) for table in tables]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(key_sets=st.lists(KEYS, min_size=1, max_size=5))
def test_files_share_keys_if_one_is_in_two_of_them(tmp_path: Path, key_sets: list[set[tuple[str, int]]]) -> None:
    files = stage(tmp_path / "rows", key_sets)
    has_repeated = len(set().union(*key_sets)) < sum(map(len, key_sets))
    assert staging.may_share_keys(str(tmp_path / "rows"), files, METERS, SCHEMA) == has_repeated


def test_too_many_rows_to_compare_may_share_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "MAX_ROWS_COMPARED_IN_MEMORY", 3)
    several = stage(tmp_path / "rows", [{("d1", at) for at in range(0, 20, 2)}, {("d1", at) for at in range(1, 20, 2)}])
    assert staging.may_share_keys(str(tmp_path / "rows"), several, METERS, SCHEMA)
    # In the order of time, files overlap for a moment only.
    ordered = stage(tmp_path / "rows", [{("d1", 0), ("d1", 10)}, {("d1", 9), ("d1", 20)}])
    assert not staging.may_share_keys(str(tmp_path / "rows"), ordered, METERS, SCHEMA)


@settings(max_examples=60, deadline=None)
@given(readings=st.lists(st.tuples(st.sampled_from(["d1", "d2", "é"]), st.integers(0, 30)), min_size=2, max_size=40))
def test_the_last_row_of_a_key_is_kept_whether_or_not_keys_are_checked_first(readings: list[tuple[str, int]]) -> None:
    table = rows([{TBNAME: name, "ts": START + at, "a": number} for number, (name, at) in enumerate(readings)])
    expected = {key: number for number, key in enumerate(readings)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "MIN_CHECKED_ROWS", 0)
        kept = read(keys.keep_last_per_key(table, METERS.primary_key))
    assert {(row[TBNAME], row["ts"] - START): row["a"] for row in kept} == expected

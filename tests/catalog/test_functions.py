"""Registered functions in the catalog."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.catalog import Catalog
from headrace.errors import ExistsError, IntegrityError, NotFoundError
from headrace.model.functions import Artifact, FunctionKind, RegisteredFunction
from headrace.model.jobs import JobState
from tests.catalog.samples import definition, supertable

SPLIT = RegisteredFunction("SPLIT", "a.Split")
CODE = Artifact("0" * 64, "sums.py", 5)
SUMS = RegisteredFunction(
    "sums",
    "sums",
    dialect="tdengine",
    kind=FunctionKind.UDAF,
    artifact=CODE,
    vectorized=True,
    owner="vera",
    created=7,
    output_type="DOUBLE",
    buffer_size=128,
    comment="adds",
    version=2,
)


@pytest.fixture
def metered(power: Catalog) -> Catalog:
    """Return a catalog with the source of streams."""
    power.tables.create(supertable("meters"))
    return power


def test_functions_are_listed_by_name_until_they_are_dropped(catalog: Catalog) -> None:
    match = RegisteredFunction("MATCH", "a.Match")
    catalog.functions.create(SPLIT)
    catalog.functions.create(match)
    assert catalog.functions.all("iotdb") == (match, SPLIT)
    catalog.functions.drop("iotdb", "MATCH")
    assert catalog.functions.all("iotdb") == (SPLIT,)


def test_a_function_is_created_and_dropped_once(catalog: Catalog) -> None:
    catalog.functions.create(SPLIT)
    with pytest.raises(ExistsError, match=r"SPLIT.*has been created"):
        catalog.functions.create(RegisteredFunction("SPLIT", "a.Other"))
    assert catalog.functions.all("iotdb") == (SPLIT,)
    catalog.functions.drop("iotdb", "SPLIT")
    with pytest.raises(NotFoundError, match=r"SPLIT.*has not been created"):
        catalog.functions.drop("iotdb", "SPLIT")


def test_each_language_has_functions_of_its_own(catalog: Catalog) -> None:
    catalog.functions.create(SUMS)
    catalog.functions.create(replace(SPLIT, name="sums"))
    assert catalog.functions.all("tdengine") == (SUMS,)
    assert catalog.functions.find("tdengine", "sums") == SUMS
    assert catalog.functions.find("tdengine", "SPLIT") is None
    with pytest.raises(ExistsError, match="function sums exists already"):
        catalog.functions.create(SUMS)
    with pytest.raises(NotFoundError, match="function sum does not exist") as missing:
        catalog.functions.drop("tdengine", "sum")
    assert missing.value.hint == "did you mean sums?"


def test_changes_of_other_processes_are_seen_at_once(url: str, catalog: Catalog) -> None:
    with Catalog.open(url) as other:
        assert other.functions.all("iotdb") == ()
        catalog.functions.create(SPLIT)
        assert other.functions.all("iotdb") == (SPLIT,)
        catalog.functions.create(SUMS)
        catalog.functions.create(SUMS, or_replace=True)
        assert other.functions.all("tdengine") == (replace(SUMS, version=3),)
        catalog.functions.drop("iotdb", "SPLIT")
        assert other.functions.all("iotdb") == ()


def test_functions_are_read_again_only_after_a_change(catalog: Catalog) -> None:
    catalog.functions.create(SPLIT)
    functions = catalog.functions.all("iotdb")
    with pytest.raises(ExistsError):
        catalog.functions.create(SPLIT)
    assert catalog.functions.all("iotdb") is functions
    catalog.functions.create(SUMS)
    assert catalog.functions.all("iotdb") is not functions


def test_a_function_that_replaces_another_is_its_next_version(catalog: Catalog) -> None:
    new = Artifact("1" * 64, "sums.py", 6)
    catalog.functions.create(SUMS)
    catalog.functions.create(replace(SUMS, artifact=new), or_replace=True)
    assert catalog.functions.all("tdengine") == (replace(SUMS, artifact=new, version=3),)
    assert catalog.functions.artifacts() == {new.sha256}


def test_a_function_that_a_stream_calls_stays_as_it_is(metered: Catalog) -> None:
    metered.functions.create(SUMS)
    for name in ("first", "second"):
        metered.jobs.create(definition(name, functions=("sums",)))
    with pytest.raises(IntegrityError, match=r"function sums cannot be dropped: stream power.first, stream power.second call it"):
        metered.functions.drop("tdengine", "sums")
    with pytest.raises(IntegrityError, match=r"function sums cannot be replaced: stream power.first, stream power.second call it"):
        metered.functions.create(SUMS, or_replace=True)
    metered.jobs.set_state("id-first", JobState.PAUSED)
    metered.jobs.set_state("id-second", JobState.STOPPED)
    with pytest.raises(
        IntegrityError, match=r"cannot be replaced by an aggregate of INT: stream power.first, stream power.second need"
    ):
        metered.functions.create(replace(SUMS, output_type="INT"), or_replace=True)
    assert metered.functions.all("tdengine") == (SUMS,)
    metered.functions.create(SUMS, or_replace=True)
    metered.jobs.drop("id-first")
    with pytest.raises(IntegrityError, match=r"function sums cannot be dropped: stream power.second calls it"):
        metered.functions.drop("tdengine", "sums")
    metered.jobs.drop("id-second")
    metered.functions.drop("tdengine", "sums")


def test_a_stream_needs_the_functions_that_it_was_planned_with(metered: Catalog) -> None:
    with pytest.raises(NotFoundError, match="function sums does not exist any more"):
        metered.jobs.create(definition(functions=("sums",)))
    assert metered.jobs.all() == []

"""Ids of DAGs: allowed by Airflow, and different for different names."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.dag_ids import dag_tag, job_from_dag_id, snode_dag_id, snode_from_dag_id
from headrace.streams.kind import STREAM
from tests.airflow.stream_dags import stream_dag_id

NAMES = st.text(alphabet=st.sampled_from("ab_.1-é 漢"), min_size=1, max_size=8)
# What Airflow allows in a key.
ALLOWED = re.compile(r"[A-Za-z0-9_.-]{1,250}")


def test_a_plain_name_stands_in_the_id_as_it_is() -> None:
    assert stream_dag_id("power", "avg_v") == "headrace_stream__power__avg_v"
    assert snode_dag_id("default") == "headrace_snode__default"


@given(NAMES, NAMES, NAMES, NAMES)
def test_different_streams_have_different_ids(database: str, name: str, other_database: str, other: str) -> None:
    same = stream_dag_id(database, name) == stream_dag_id(other_database, other)
    assert same == ((database, name) == (other_database, other))


@given(NAMES, NAMES)
def test_airflow_allows_every_id(database: str, name: str) -> None:
    assert ALLOWED.fullmatch(stream_dag_id(database, name))


@pytest.mark.parametrize("letter", ["x", "漢"])
def test_names_of_any_length_give_ids_that_airflow_allows_and_that_differ(letter: str) -> None:
    first, second = stream_dag_id("power", letter * 191 + "a"), stream_dag_id("power", letter * 191 + "b")
    assert ALLOWED.fullmatch(first)
    assert first != second


def test_where_one_name_ends_and_the_next_begins_is_told_apart() -> None:
    assert stream_dag_id("a", "b__c") != stream_dag_id("a__b", "c")
    assert stream_dag_id("a_", "b") != stream_dag_id("a", "_b")


@given(NAMES, NAMES)
def test_an_id_tells_its_names(database: str, name: str) -> None:
    assert job_from_dag_id(stream_dag_id(database, name)) == (STREAM, database, name)
    assert snode_from_dag_id(snode_dag_id(name)) == name
    assert snode_from_dag_id(stream_dag_id(database, name)) is None
    assert job_from_dag_id(snode_dag_id(name)) is None


def test_an_id_that_was_shortened_tells_no_names() -> None:
    assert job_from_dag_id(stream_dag_id("a" * 64, "b" * 191)) is None
    assert snode_from_dag_id(snode_dag_id("c" * 250)) is None


def test_tags_are_as_long_as_airflow_allows_and_differ() -> None:
    first, second = dag_tag("d" * 150 + "a"), dag_tag("d" * 150 + "b")
    assert len(first) == len(second) == 100
    assert first != second
    assert dag_tag("d" * 100) == "d" * 100

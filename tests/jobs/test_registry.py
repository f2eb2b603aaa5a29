"""The registry of kinds of jobs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from headrace.errors import UnknownKindError
from headrace.jobs.actions import ALLOWED
from headrace.jobs.kinds import JobKind
from headrace.jobs.registry import is_known, kind_of, kinds, register
from headrace.model.jobs import JobState
from tests.jobs.tally import TALLY, registered

HEAVY = ("pyspark", "pyarrow", "pandas", "sqlalchemy", "deltalake", "duckdb", "airflow", "fastapi", "prometheus_client")


def test_a_kind_is_looked_up_by_its_name_while_it_is_registered() -> None:
    with registered():
        assert kind_of("tally") is TALLY
        assert kinds()[-1] is TALLY
    assert not is_known("tally")


def test_an_unknown_kind_raises_and_the_error_names_those_that_are_known() -> None:
    with pytest.raises(UnknownKindError, match="jobs of the kind tally are not known") as error:
        kind_of("tally")
    assert "streams, continuous queries" in error.value.hint


@pytest.mark.parametrize(
    ("name", "prefix"), [("stream", "other__"), ("other", "headrace_stream__"), ("other", "headrace_stream__x")]
)
def test_kinds_that_are_not_distinct_are_refused(name: str, prefix: str) -> None:
    with pytest.raises(ValueError, match="are not distinct"):
        register(replace(TALLY, name=name, dag_prefix=prefix))
    assert len(kinds()) == 3


def test_looking_up_kinds_imports_nothing_that_is_slow() -> None:
    code = (
        f"import sys; from headrace.jobs.registry import kinds; kinds(); print([name for name in {HEAVY} if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.key)
def test_the_parts_of_a_kind_exist(kind: JobKind, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("dags", "plugins"):
        monkeypatch.syspath_prepend(folder)
    parts = [kind.runner, kind.sources, kind.drop, kind.page, *filter(None, (kind.history, kind.metrics))]
    assert all(part() is not None for part in parts)
    assert kind.page().layout in ("stream", "query", "pipe", "job")
    assert set(kind.actions) <= set(ALLOWED)


def test_hints_and_states_are_in_the_words_of_the_kind() -> None:
    assert TALLY.fix_hint == "fix the cause, then run START TALLY"
    assert TALLY.state_word(JobState.RUNNING) == "COUNTING"
    assert TALLY.state_word(JobState.STOPPED) == "STOPPED"
    assert kind_of("continuous query").fix_hint == "fix the cause, then run RESUME CONTINUOUS QUERY"

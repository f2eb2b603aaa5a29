"""The processor that fails does so at its stages."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from headrace.errors import InternalError, ProgrammingError
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.events import Event, StatementEvent
from headrace.pipes.processors.throwing_exception import create, validate
from tests.pipes.processors.streams import CONTEXT, insert, row

INSERT = insert([row(1, "root.db.d", d1=1.0)])
STATEMENT = StatementEvent("CREATE DATABASE root.a", "schema.database.create")


def test_without_stages_all_events_pass() -> None:
    validate(PipeAttributes({}))
    processor = create(PipeAttributes({}), CONTEXT)
    assert processor.process([INSERT, STATEMENT], 0) == [INSERT, STATEMENT]
    assert processor.process([], 0) == []
    processor.close()


@pytest.mark.parametrize(
    ("stages", "events", "message"),
    [
        ("process-tablet-insertion-event", [INSERT], "process(TabletInsertionEvent, EventCollector)"),
        ("validate, Process-Event", [STATEMENT], "process(Event, EventCollector)"),
        ("process", [STATEMENT], "process"),
        ("heartbeat", [], "heartbeat"),
    ],
)
def test_processing_fails(stages: str, events: Sequence[Event], message: str) -> None:
    processor = create(PipeAttributes({"stages": stages}), CONTEXT)
    with pytest.raises(InternalError) as caught:
        processor.process(events, 0)
    assert caught.value.message == f"Throwing exception in {message}"


def test_other_events_pass_a_stage_that_is_not_theirs() -> None:
    processor = create(PipeAttributes({"stages": "process-event,heartbeat"}), CONTEXT)
    assert processor.process([INSERT], 0) == [INSERT]


def test_creation_and_closing_fail() -> None:
    with pytest.raises(InternalError, match="Throwing exception in customize"):
        create(PipeAttributes({"processor.stages": "customize"}), CONTEXT)
    with pytest.raises(InternalError, match="Throwing exception in close"):
        create(PipeAttributes({"stages": "close"}), CONTEXT).close()


def test_validation_fails() -> None:
    with pytest.raises(ProgrammingError, match="1107: Throwing exception in validate"):
        validate(PipeAttributes({"stages": "validate"}))
    with pytest.raises(ProgrammingError, match="1107: Invalid value later of stages"):
        validate(PipeAttributes({"stages": "later"}))

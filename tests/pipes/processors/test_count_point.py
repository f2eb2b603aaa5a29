"""The processor that counts points reports their number."""

from __future__ import annotations

import pytest

from headrace.errors import ProgrammingError
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.events import DeleteEvent
from headrace.pipes.processors.count_point import create, validate
from tests.pipes.processors.streams import CONTEXT, insert, row, rows_in, through_ipc

ATTRIBUTES = {"processor.output-series": "root.counts.pipe1.points"}
ROWS = insert([row(1, "root.db.d", d1=1.0, t1="a"), row(2, "root.db.d", d1=2.0)], ["d1", "t1"])


def test_points_are_counted_over_restarts() -> None:
    before = create(PipeAttributes(ATTRIBUTES), CONTEXT)
    assert rows_in(before.process([ROWS, ROWS], 1000)) == [row(1000, "root.counts.pipe1", points=6)]
    after = create(PipeAttributes(ATTRIBUTES), CONTEXT)
    after.restore(through_ipc(before.state()))
    assert rows_in(after.process([ROWS], 2000)) == [row(2000, "root.counts.pipe1", points=9)]


def test_other_events_pass_and_do_not_count() -> None:
    delete = DeleteEvent(ROWS.data)
    processor = create(PipeAttributes(ATTRIBUTES), CONTEXT)
    assert processor.process([delete], 0) == [delete]
    assert processor.process([], 0) == []


def test_a_state_of_other_parameters_is_discarded() -> None:
    before = create(PipeAttributes(ATTRIBUTES), CONTEXT)
    before.process([ROWS], 0)
    after = create(PipeAttributes({"output.series": "root.counts.pipe2.points"}), CONTEXT)
    after.restore(through_ipc(before.state()))
    assert rows_in(after.process([ROWS], 5)) == [row(5, "root.counts.pipe2", points=3)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "1107: The parameter output-series is required"),
        ({"output-series": "root.a.*"}, "1107: Illegal output series path: root.a.*"),
        ({"output-series": "points"}, "1107: Illegal output series path: points"),
    ],
)
def test_invalid_parameters_are_rejected(given: dict[str, str], message: str) -> None:
    with pytest.raises(ProgrammingError) as caught:
        validate(PipeAttributes(given))
    assert caught.value.message == message

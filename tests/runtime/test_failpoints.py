"""Failpoints."""

from __future__ import annotations

import pytest

from headrace.model import failpoints
from headrace.model.failpoints import FailpointError, failpoint


def test_a_failpoint_that_is_not_armed_has_no_effect() -> None:
    failpoint("somewhere")
    with failpoints.armed("elsewhere:1:raise"):
        failpoint("somewhere")


def test_an_armed_failpoint_triggers_only_at_its_passage() -> None:
    with failpoints.armed("somewhere:2:raise"):
        failpoint("somewhere")
        with pytest.raises(FailpointError, match="somewhere"):
            failpoint("somewhere")
        failpoint("somewhere")


def test_failpoints_are_disarmed_at_the_end_of_the_block() -> None:
    with failpoints.armed("somewhere:1:raise"):
        pass
    failpoint("somewhere")


def test_a_failpoint_can_call_a_function_once() -> None:
    calls: list[int] = []
    with failpoints.calling("somewhere", lambda: calls.append(1)):
        failpoint("somewhere")
        failpoint("somewhere")
    assert calls == [1]


@pytest.mark.parametrize("text", ["somewhere", "somewhere:x", "somewhere:0", "somewhere:1:explode"])
def test_an_invalid_specification_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"name:count"):
        failpoints.arm(text)

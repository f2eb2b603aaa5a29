"""Apply stages: the only way in which a statement changes anything. The executors register what each stage does."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Final

from headrace.errors import InternalError
from headrace.service import stages
from headrace.service.results import Result

if TYPE_CHECKING:
    from headrace.service.state import SessionState

DONE: Final = Result()


@singledispatch
def apply(stage: stages.Stage, session: SessionState) -> Result:  # noqa: ARG001
    """Apply a stage and return its result, which is the statement's if the stage is the last."""
    raise InternalError(f"no executor for stage {type(stage).__name__}")

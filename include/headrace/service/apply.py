"""Apply stages: the only way in which a statement changes anything. The executors register what each stage does."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING

from headrace.errors import InternalError
from headrace.service.results import Result
from headrace.service.stage import DONE, Stage

if TYPE_CHECKING:
    from headrace.service.state import SessionState

__all__ = ["DONE", "apply"]


@singledispatch
def apply(stage: Stage, session: SessionState) -> Result:  # noqa: ARG001
    """Apply a stage and return its result, which is the statement's if the stage is the last."""
    raise InternalError(f"no executor for stage {type(stage).__name__}")

"""Triggers: user code that writes to series call, with what has been counted of its calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from headrace.model.functions import Artifact
from headrace.model.paths import PathPattern, split_path
from headrace.trigger import FailureStrategy


class TriggerEvent(StrEnum):
    """When a trigger is called."""

    BEFORE_INSERT = "BEFORE_INSERT"
    AFTER_INSERT = "AFTER_INSERT"


class TriggerType(StrEnum):
    """How many living instances a trigger has: one in each process that writes, or a single one."""

    STATELESS = "STATELESS"
    STATEFUL = "STATEFUL"


class TriggerState(StrEnum):
    """Triggers that are ACTIVE are called. A stateful one is TRANSFERRING while another process takes it over."""

    INACTIVE = "INACTIVE"
    ACTIVE = "ACTIVE"
    DROPPING = "DROPPING"
    TRANSFERRING = "TRANSFERRING"


@dataclass(frozen=True)
class RegisteredTrigger:
    """A trigger of the catalog.

    Attributes:
        name: As written; upper and lower case differ.
        id: Distinguishes it from triggers that had the name before.
        pattern: The paths of the series that it is for, as text.
        class_name: The class, with its module.
        artifact: The code.
        owner: The user whose statement created it, and as whom it runs.
        created: Epoch milliseconds.
        failure_strategy: What its failures do to a write; None until its first instance exists.
        node: The process with the living instance of a stateful trigger; empty if none has one.
        reason: Why it was stopped, if Headrace has stopped it.
    """

    name: str
    id: str
    event: TriggerEvent
    type: TriggerType
    pattern: str
    class_name: str
    artifact: Artifact
    attributes: Mapping[str, str] = field(default_factory=dict)
    owner: str = ""
    created: int = 0
    state: TriggerState = TriggerState.INACTIVE
    failure_strategy: FailureStrategy | None = None
    node: str = ""
    reason: str = ""

    @cached_property
    def path_pattern(self) -> PathPattern:
        """The pattern of the series that it is for."""
        return PathPattern(split_path(self.pattern))

    @property
    def is_stateful(self) -> bool:
        """Whether it has a single living instance."""
        return self.type is TriggerType.STATEFUL

    @property
    def is_active(self) -> bool:
        """Whether writes call it. One that is being transferred is called once it has been."""
        return self.state in (TriggerState.ACTIVE, TriggerState.TRANSFERRING)

    @property
    def is_changing(self) -> bool:
        """Whether a process is creating, dropping or taking it over, or was when it died."""
        return self.failure_strategy is None or self.state in (TriggerState.DROPPING, TriggerState.TRANSFERRING)


@dataclass(frozen=True, slots=True)
class TriggerActivity:
    """What has been counted of a trigger's calls: `duration_us` in all, and the last failure, in epoch milliseconds.

    `failures_in_row` are those since the last call that was successful.
    """

    calls: int = 0
    failures: int = 0
    failures_in_row: int = 0
    duration_us: int = 0
    last_error: str = ""
    last_error_at: int | None = None

    def followed_by(self, later: TriggerActivity) -> TriggerActivity:
        """Return what has been counted in two periods that follow each other."""
        is_failing = later.failures == later.calls
        last = later if later.failures else self
        return replace(
            last,
            calls=self.calls + later.calls,
            failures=self.failures + later.failures,
            failures_in_row=later.failures_in_row + (self.failures_in_row if is_failing else 0),
            duration_us=self.duration_us + later.duration_us,
        )

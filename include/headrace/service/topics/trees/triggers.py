"""Triggers: create, drop, start and stop them, and what there is to show of them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.catalog.triggers import trigger_exists
from headrace.context import Context
from headrace.errors import Error, InvalidCodeError, NotFoundError, UserCodeError
from headrace.model.failpoints import failpoint
from headrace.model.tree_statements import CreateTrigger, DropTrigger, StartTrigger, StopTrigger, TreeShow
from headrace.model.tree_status import TreeStatus
from headrace.model.triggers import RegisteredTrigger, TriggerActivity, TriggerState, TriggerType
from headrace.service.results import BIGINT, DOUBLE, INSTANT, STRING, CatalogRows, ColumnOf, read_columns
from headrace.service.rights import Action, Right, need_rights, trigger_securable
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.service.topics.code_location import CodeLocation, as_hint
from headrace.service.visible_rows import trigger_as_seen
from headrace.trees.owners import trigger_needs

if TYPE_CHECKING:
    from headrace.code.sources import CodeSource
    from headrace.model.functions import Artifact

CODE: Final = CodeLocation(
    "trigger",
    "Trigger '{uri}'",
    invalid_uri=TreeStatus.TRIGGER_DOWNLOAD_ERROR,
    unreadable=TreeStatus.TRIGGER_DOWNLOAD_ERROR,
    invalid_class=TreeStatus.TRIGGER_LOAD_CLASS_ERROR,
)
ALL_NODES: Final = "ALL"


def plan_create_trigger(statement: CreateTrigger, session: PlanningContext) -> list[Stage]:
    """Plan CREATE TRIGGER. The class is loaded once the user's rights have been checked."""
    source = CODE.find(statement, session.context.egress)
    present = session.context.catalog.triggers.find(statement.name)
    if present is not None and present.failure_strategy is not None and present.state is not TriggerState.DROPPING:
        raise trigger_exists(statement.name)
    when = statement.event.replace("_", " ").lower()
    code = f"{statement.class_name} in {source.location}, loaded in a code host"
    line = f"create {statement.type.lower()} trigger {statement.name} {when} on {statement.pattern}: {code}"
    stage = trigger_stage(Action.CREATE, statement.name, line, partial(create_trigger, statement, source))
    needed = need_rights(trigger_needs(statement.pattern, statement.name))
    return [replace(stage, required=(*stage.required, *needed))]


def plan_drop_trigger(statement: DropTrigger, session: PlanningContext) -> list[Stage]:
    """Plan DROP TRIGGER."""
    trigger = session.context.catalog.triggers.get(statement.name)
    return [trigger_stage(Action.DROP, trigger.name, f"drop trigger {trigger.name}", partial(drop_trigger, trigger))]


def plan_start_trigger(statement: StartTrigger, session: PlanningContext) -> list[Stage]:
    """Plan START TRIGGER, which has no effect on an active trigger."""
    return [set_state(statement.name, TriggerState.ACTIVE, "start", session)]


def plan_stop_trigger(statement: StopTrigger, session: PlanningContext) -> list[Stage]:
    """Plan STOP TRIGGER, which has no effect on an inactive trigger."""
    return [set_state(statement.name, TriggerState.INACTIVE, "stop", session)]


def set_state(name: str, state: TriggerState, verb: str, session: PlanningContext) -> Stage:
    trigger = session.context.catalog.triggers.find(name)
    if trigger is None or trigger.failure_strategy is None:
        raise not_created(name, verb)

    def apply(session: SessionState) -> None:
        from headrace.trees.trigger_drops import complete
        from headrace.trees.trigger_instances import lock_name

        with session.context.catalog.lock(lock_name(name)):
            complete(session.context, name)
            if not session.context.catalog.triggers.change(trigger.id, state=state.value, reason=""):
                raise not_created(name, verb)

    return trigger_stage(Action.OPERATE, name, f"{verb} trigger {name}", apply)


def not_created(name: str, verb: str) -> Error:
    """Return the error for a trigger that does not exist."""
    message = f"Failed to {verb} trigger [{name}], this trigger has not been created"
    return NotFoundError(message, hint="SHOW TRIGGERS lists what there is")


def create_trigger(statement: CreateTrigger, source: CodeSource, session: SessionState) -> None:
    """Store the code of a trigger, record it, and create its first instance. A failure leaves nothing."""
    from headrace.code.registration import store_code
    from headrace.trees.trigger_drops import complete
    from headrace.trees.trigger_instances import create_here, lock_name

    context = session.context
    content = CODE.read(statement, source)
    artifact = store_code(source.name, content, context.catalog, context.settings)
    trigger = new_trigger(statement, artifact, session)
    with context.catalog.lock(lock_name(trigger.name)):
        complete(context, trigger.name)
        context.catalog.triggers.create(trigger)
        failpoint("triggers.recorded")
        try:
            created = create_here(context, trigger)
        except BaseException as error:
            context.catalog.triggers.remove(trigger.id)
            if isinstance(error, Error):
                raise instance_error(statement, error) from error
            raise
        failpoint("triggers.created")
        context.catalog.triggers.change(
            trigger.id, state=TriggerState.ACTIVE.value, failure_strategy=created.failure_strategy.value
        )


def new_trigger(statement: CreateTrigger, artifact: Artifact, session: SessionState) -> RegisteredTrigger:
    """Return a trigger that has no instance yet."""
    return RegisteredTrigger(
        statement.name,
        uuid.uuid4().hex,
        statement.event,
        statement.type,
        str(statement.pattern),
        statement.class_name,
        artifact,
        dict(statement.attributes),
        owner=session.record_owner(),
        created=session.context.clock.now(),
    )


def drop_trigger(trigger: RegisteredTrigger, session: SessionState) -> None:
    """Let no write call a trigger any more, call `on_drop`, and remove it. A failure of `on_drop` is logged."""
    from headrace.trees.trigger_drops import remove_trigger
    from headrace.trees.trigger_instances import lock_name

    with session.context.catalog.lock(lock_name(trigger.name)):
        remove_trigger(session.context, session.context.catalog.triggers.get(trigger.name))


def trigger_stage(action: Action, name: str, line: str, apply: Callable[[SessionState], None]) -> Stage:
    """Return a stage with a right on a trigger."""
    return Stage((Right(action, trigger_securable(name)),), lambda: [line], apply)


def instance_error(statement: CreateTrigger, cause: Error) -> Error:
    """Return the error for an instance that cannot be created."""
    if isinstance(cause, InvalidCodeError):
        return CODE.load_error(statement, as_hint(cause))
    message = f"Fail to create triggerInstance [{statement.name}] on Data Nodes: {cause.message}"
    return UserCodeError(message, hint=cause.hint, span=statement.span).with_status(TreeStatus.CREATE_TRIGGER_ERROR)


class ShownTrigger(NamedTuple):
    """A trigger and what has been counted of its calls."""

    trigger: RegisteredTrigger
    activity: TriggerActivity


COLUMNS: Final[dict[str, ColumnOf[ShownTrigger]]] = {
    "TriggerName": (STRING, lambda one: one.trigger.name),
    "Event": (STRING, lambda one: one.trigger.event.value),
    "Type": (STRING, lambda one: one.trigger.type.value),
    "State": (STRING, lambda one: one.trigger.state.value),
    "PathPattern": (STRING, lambda one: one.trigger.pattern),
    "ClassName": (STRING, lambda one: one.trigger.class_name),
    "NodeId": (STRING, lambda one: ALL_NODES if one.trigger.type is TriggerType.STATELESS else one.trigger.node),
}
DETAILS: Final[dict[str, ColumnOf[ShownTrigger]]] = {
    "Owner": (STRING, lambda one: one.trigger.owner),
    "FailureStrategy": (STRING, lambda one: one.trigger.failure_strategy and one.trigger.failure_strategy.value),
    "Calls": (BIGINT, lambda one: one.activity.calls),
    "Failures": (BIGINT, lambda one: one.activity.failures),
    "DurationMs": (DOUBLE, lambda one: one.activity.duration_us / 1_000),
    "LastError": (STRING, lambda one: one.activity.last_error or None),
    "LastErrorTime": (INSTANT, lambda one: one.activity.last_error_at),
    "Reason": (STRING, lambda one: one.trigger.reason or None),
}
"""Columns that IoTDB does not have."""


def show_triggers(statement: TreeShow, context: Context) -> CatalogRows:
    """Return the triggers by name, with DETAILS also what has been counted of their calls."""
    activity = context.catalog.trigger_activities.all() if statement.details else {}
    created = [one for one in context.catalog.triggers.all() if one.failure_strategy is not None]
    counted = [(one, activity.get(one.id, TriggerActivity())) for one in created]
    triggers = [ShownTrigger(*trigger_as_seen(context.permissions(), *one)) for one in counted]
    return read_columns(COLUMNS | DETAILS if statement.details else COLUMNS, triggers)

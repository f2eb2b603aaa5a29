"""Pipes: create, alter, drop, start and stop them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace import secrets
from headrace.errors import EgressDeniedError, Error, ExistsError, NotFoundError
from headrace.model.jobs import DesiredState, JobDefinition, JobRecord, JobState
from headrace.model.pipes import Pipe, PipeStage, without_prefix
from headrace.model.spelling import did_you_mean
from headrace.model.tree_statements import AlterPipe, CreatePipe, DropPipe, StageChange, StartPipe, StopPipe
from headrace.model.tree_status import TreeStatus
from headrace.pipes.builtin import BY_NAME
from headrace.pipes.kind import PIPE
from headrace.pipes.lookup import plugin_name
from headrace.pipes.plugins import PipeContext
from headrace.service.job_cycles import check_pipe_ends, recording_pipe
from headrace.service.rights import Action, Right, job_securable, on_job
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.service.topics.jobs import needed_rights, notify_airflow, reactivate_job, remove_job, suspend_job
from headrace.service.topics.trees.pipe_checks import Stages, check_name, check_receiver, check_secrets, check_stages
from headrace.service.topics.trees.pipe_shows import braced

if TYPE_CHECKING:
    from headrace.context import Context
    from headrace.pipes.plugins import Plugin

DIALECT: Final = "iotdb"
HINT: Final = "SHOW PIPES lists what there is"


def plan_create_pipe(statement: CreatePipe, session: PlanningContext) -> list[Stage]:
    """Plan CREATE PIPE. The sink connects to its receiver once the user's rights have been checked."""
    check_name(statement.name, "create")
    stages = {stage: dict(getattr(statement, stage.value)) for stage in PipeStage}
    plugins = check_stages(session.context, stages)
    job = new_job(statement.name, session)
    pipe = pipe_of(stages, started=job.created)
    check_pipe_ends(job, pipe, session.context)
    rights = (*on_job(Action.CREATE, job), *pipe_rights(job, pipe, session.context))
    recorded = record_pipe(job, stages, plugins, rights, if_not_exists=statement.if_not_exists)
    return [recorded, notify_airflow(job_securable(job))]


def pipe_rights(job: JobDefinition, pipe: Pipe, context: Context) -> tuple[Right, ...]:
    """Return the rights that some stages of a pipe need; see `needed_rights`."""
    try:
        return needed_rights(replace(job, pipe=pipe), context)
    except EgressDeniedError as error:
        raise error.with_status(TreeStatus.PIPE_ERROR) from error.__cause__


def new_job(name: str, session: PlanningContext) -> JobDefinition:
    """Return a job without stages."""
    context = session.context
    return JobDefinition(
        id=uuid.uuid4().hex,
        kind=PIPE,
        database="",
        name=name,
        sql="",
        dialect=DIALECT,
        sources=(),
        target=None,
        created=context.clock.now(),
        snode=context.settings.snode,
    )


def record_pipe(
    job: JobDefinition, stages: Stages, plugins: Mapping[PipeStage, Plugin], rights: tuple[Right, ...], *, if_not_exists: bool
) -> Stage:
    """Connect to the receiver of a new pipe, and record the pipe, which its snode then runs."""

    def apply(session: SessionState) -> None:
        from headrace.pipes.lifecycle import forget, initial_progress

        owned = replace(job, owner=session.record_owner())
        check_receiver(pipe_context(owned, session), plugins[PipeStage.SINK], stages[PipeStage.SINK])
        definition = with_stages(owned, protect(stages, plugins, session), plugins, started=job.created)
        is_created = False
        try:
            progress = initial_progress(session.context, definition)
            with recording_pipe(definition, session.context):
                is_created = session.context.catalog.jobs.create(
                    definition, if_not_exists=if_not_exists, progress=progress, plugins=registered_names(plugins)
                )
        except ExistsError as error:
            message = f"Failed to create pipe {job.name}, the pipe with the same name has been created"
            raise ExistsError(message, hint=error.hint).with_status(TreeStatus.PIPE_ERROR) from None
        finally:
            if not is_created:
                forget(session.context, definition)

    def describe() -> list[str]:
        return [f"create pipe {job.name}", *describe_stages(stages, plugins), *describe_handshake(stages)]

    return Stage(rights, describe, apply)


def plan_alter_pipe(statement: AlterPipe, session: PlanningContext) -> list[Stage]:
    """Plan ALTER PIPE. The pipe continues where it is, and runs unless the user has stopped it."""
    check_name(statement.name, "alter")
    record = session.context.catalog.jobs.find("", statement.name, PIPE)
    if record is None:
        if statement.if_exists:
            return []
        raise missing(session.context, statement.name, "Failed to alter pipe {}, pipe not found in system.")
    job, changes = record.definition, {change.stage: change for change in statement.changes}
    stages = {stage: altered(job.stages.stage(stage), changes.get(stage)) for stage in PipeStage}
    plugins = check_stages(session.context, stages)
    for changed in changes:
        check_secrets(plugins[changed], job.stages.stage(changed), stages[changed])
    pipe = pipe_of(stages, started=session.context.clock.now())
    check_pipe_ends(job, pipe, session.context)
    rights = (*on_job(Action.ALTER, job), *pipe_rights(job, pipe, session.context))
    stage = redefine_pipe(record, stages, plugins, changes, rights)
    return [stage, notify_airflow(job_securable(job), resumed=record.desired is DesiredState.RUNNING)]


def altered(attributes: Mapping[str, str], change: StageChange | None) -> dict[str, str]:
    """Return the attributes of a stage after a change. A key in another spelling, with another prefix, takes its place."""
    if change is None:
        return dict(attributes)
    new = dict(change.attributes)
    if change.replaces:
        return new
    keys = {without_prefix(key) for key in new}
    return {key: value for key, value in attributes.items() if without_prefix(key) not in keys} | new


def redefine_pipe(
    record: JobRecord,
    stages: Stages,
    plugins: Mapping[PipeStage, Plugin],
    changes: Mapping[PipeStage, StageChange],
    rights: tuple[Right, ...],
) -> Stage:
    """Connect to the receiver if the sink changes, and record the new stages of a pipe."""
    job = record.definition
    connects = PipeStage.SINK in changes

    def apply(session: SessionState) -> None:
        context = session.context
        if connects:
            check_receiver(pipe_context(job, session), plugins[PipeStage.SINK], stages[PipeStage.SINK])
        protected = protect(stages, plugins, session, kept=job.stages)
        definition = with_stages(job, protected, plugins, started=context.clock.now())
        with recording_pipe(definition, context):
            context.catalog.jobs.redefine(definition, registered_names(plugins), user=session.user)
        if record.state is JobState.STOPPED:
            state = record.resumed_state if record.desired is DesiredState.RUNNING else JobState.PAUSED
            context.catalog.jobs.set_state(job.id, state)

    def describe() -> list[str]:
        handshake = describe_handshake(stages) if connects else []
        return [f"alter pipe {job.name}, which continues where it is", *describe_stages(stages, plugins), *handshake]

    return Stage(rights, describe, apply)


def registered_names(plugins: Mapping[PipeStage, Plugin]) -> list[str]:
    """Return the names of those plugins that users have registered, as the catalog has them."""
    return [plugin.name.upper() for plugin in plugins.values() if plugin.name not in BY_NAME]


def plan_drop_pipe(statement: DropPipe, session: PlanningContext) -> list[Stage]:
    """Plan DROP PIPE."""
    check_name(statement.name, "drop")
    record = session.context.catalog.jobs.find("", statement.name, PIPE)
    if record is None:
        if statement.if_exists:
            return []
        text = "Failed to drop pipe {0}. Failures: {0} does not exist."
        raise missing(session.context, statement.name, text, TreeStatus.PIPE_NOT_EXIST_ERROR)
    return [remove_job(record.definition), notify_airflow(job_securable(record.definition), dropped=True)]


def plan_start_pipe(statement: StartPipe, session: PlanningContext) -> list[Stage]:
    """Plan START PIPE, which forgets why the pipe has stopped. It has no effect on a pipe that runs."""
    record = operated(statement.name, "start", session.context)
    return [reactivate_job(record), notify_airflow(job_securable(record.definition), resumed=True)]


def plan_stop_pipe(statement: StopPipe, session: PlanningContext) -> list[Stage]:
    """Plan STOP PIPE, which has no effect on a pipe that is stopped."""
    return [suspend_job(operated(statement.name, "stop", session.context))]


def operated(name: str, verb: str, context: Context) -> JobRecord:
    """Return the pipe of a name for START or STOP."""
    check_name(name, verb)
    record = context.catalog.jobs.find("", name, PIPE)
    if record is None:
        raise missing(context, name, f"Failed to {verb} pipe {{}}, the pipe does not exist")
    return record


def missing(context: Context, name: str, text: str, status: TreeStatus = TreeStatus.PIPE_ERROR) -> Error:
    """Return the error for a pipe that does not exist; the text has a place for its name."""
    names = [record.definition.name for record in context.catalog.jobs.all(kind=PIPE)]
    return NotFoundError(text.format(name), hint=did_you_mean(name, names, HINT)).with_status(status)


def pipe_context(job: JobDefinition, session: SessionState) -> PipeContext:
    """Return what the plugins of a pipe get."""
    return PipeContext(session.context, job.id, job.name, job.owner)


def protect(
    stages: Stages, plugins: Mapping[PipeStage, Plugin], session: SessionState, kept: Pipe | None = None
) -> dict[PipeStage, dict[str, str]]:
    """Return stages whose passwords are encrypted. Attributes that were kept are so already."""
    settings = session.context.settings
    protected: dict[PipeStage, dict[str, str]] = {}
    for stage, attributes in stages.items():
        old = {} if kept is None else kept.stage(stage)
        typed = {key: value for key, value in attributes.items() if old.get(key) != value}
        protected[stage] = {**attributes, **secrets.protect(typed, plugins[stage].secrets, settings)}
    return protected


def with_stages(job: JobDefinition, stages: Stages, plugins: Mapping[PipeStage, Plugin], *, started: int) -> JobDefinition:
    """Return a job with stages, and the statement that creates it, without passwords."""
    from headrace.sql import to_sql

    pipe = pipe_of(stages, started=started)
    source, processor, sink = (tuple(secrets.hide(stages[stage], plugins[stage].secrets).items()) for stage in PipeStage)
    return replace(job, sql=to_sql(CreatePipe(job.name, source, processor, sink), DIALECT), pipe=pipe)


def pipe_of(stages: Stages, *, started: int) -> Pipe:
    return Pipe(**{stage.value: stages[stage] for stage in PipeStage}, started=started)


def describe_stages(stages: Stages, plugins: Mapping[PipeStage, Plugin]) -> list[str]:
    """Describe each stage by its plugin and attributes, without passwords."""
    return [
        f"  {stage} {plugins[stage].name}: {braced(secrets.hide(stages[stage], plugins[stage].secrets))}" for stage in PipeStage
    ]


def describe_handshake(stages: Stages) -> list[str]:
    return [f"  connect to the receiver of {plugin_name(PipeStage.SINK, stages[PipeStage.SINK])}, which has to answer"]

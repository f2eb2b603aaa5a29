"""Apply the stages of databases, tables, streams and snodes, and of work such as loads and backfills.

Queries and streams need the whole engine, so only the stages that use it import it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.errors import ExistsError
from headrace.jobs.registry import kind_of
from headrace.model.jobs import DesiredState, JobState, Replacement
from headrace.runtime.table_removal import drop_subtables, drop_table
from headrace.service import alteration_stages, snode_stages, stages, virtual_stages, work_stages
from headrace.service.apply import apply
from headrace.service.results import Result
from headrace.service.stage import DONE

if TYPE_CHECKING:
    from headrace.service.state import SessionState


@apply.register(stages.MakeTable)
def _(stage: stages.MakeTable, session: SessionState) -> Result:
    """Create the files first, then the catalog row; a retry after a crash in between adopts or replaces the files."""
    catalog, table = session.context.catalog, stage.table
    with catalog.lock(f"ddl {table.database}.{table.name}"):
        if catalog.tables.find(table.database, table.name) is not None:
            if stage.if_not_exists:
                return DONE
            raise ExistsError(f"table {table.database}.{table.name} already exists", hint="use IF NOT EXISTS, or another name")
        session.context.tables.create(table, stage.database)
        catalog.tables.create(table)
    return DONE


@apply.register(stages.RemoveTable)
def _(stage: stages.RemoveTable, session: SessionState) -> Result:
    drop_table(session.context, stage.table)
    return DONE


@apply.register(alteration_stages.AddColumn)
def _(stage: alteration_stages.AddColumn, session: SessionState) -> Result:
    from headrace.service.alterations import add_column

    add_column(stage, session.context)
    return DONE


@apply.register(alteration_stages.DropColumn)
def _(stage: alteration_stages.DropColumn, session: SessionState) -> Result:
    from headrace.service.alterations import drop_column

    drop_column(stage, session.context)
    return DONE


@apply.register(alteration_stages.ModifyColumn)
def _(stage: alteration_stages.ModifyColumn, session: SessionState) -> Result:
    from headrace.service.alterations import modify_column

    modify_column(stage, session.context)
    return DONE


@apply.register(alteration_stages.RenameTag)
def _(stage: alteration_stages.RenameTag, session: SessionState) -> Result:
    from headrace.service.alterations import rename_tag

    rename_tag(stage, session.context)
    return DONE


@apply.register(alteration_stages.RenameColumn)
def _(stage: alteration_stages.RenameColumn, session: SessionState) -> Result:
    from headrace.service.alterations import rename_column

    rename_column(stage, session.context)
    return DONE


@apply.register(alteration_stages.SetComment)
def _(stage: alteration_stages.SetComment, session: SessionState) -> Result:
    table = stage.table
    session.context.catalog.tables.alter(table.database, table.name, lambda current: replace(current, comment=stage.comment))
    return DONE


@apply.register(alteration_stages.SetTtl)
def _(stage: alteration_stages.SetTtl, session: SessionState) -> Result:
    session.context.catalog.expirations.set(stage.table.database, stage.names, stage.days)
    return DONE


@apply.register(stages.MakeSubtables)
def _(stage: stages.MakeSubtables, session: SessionState) -> Result:
    """Add the names to the catalog first, which decides who owns a name. Existing subtables keep their tags."""
    table, catalog = stage.table, session.context.catalog
    names = stage.tags.column(table.series_key).to_pylist()
    existing = catalog.subtables.find(table.database, names)
    catalog.subtables.add(table.database, table.name, names)
    tagged = set(session.context.tables.read_tags(table).column(table.series_key).to_pylist()) if existing else set()
    untagged = [position for position, name in enumerate(names) if name not in tagged]
    if untagged:
        session.context.tables.upsert_tags(table, stage.tags.take(untagged))
    return DONE


@apply.register(stages.RemoveSubtables)
def _(stage: stages.RemoveSubtables, session: SessionState) -> Result:
    drop_subtables(session.context, stage.table, stage.database, [subtable.name for subtable in stage.subtables])
    return DONE


@apply.register(virtual_stages.MakeVirtualTable)
def _(stage: virtual_stages.MakeVirtualTable, session: SessionState) -> Result:
    from headrace.service.virtual_tables import make_table

    make_table(stage, session.context)
    return DONE


@apply.register(virtual_stages.MakeVirtualSubtable)
def _(stage: virtual_stages.MakeVirtualSubtable, session: SessionState) -> Result:
    from headrace.service.virtual_tables import make_subtable

    make_subtable(stage, session.context)
    return DONE


@apply.register(virtual_stages.ChangeVirtualTable)
def _(stage: virtual_stages.ChangeVirtualTable, session: SessionState) -> Result:
    from headrace.service.virtual_tables import change_table

    change_table(stage, session.context)
    return DONE


@apply.register(virtual_stages.ChangeOrigin)
def _(stage: virtual_stages.ChangeOrigin, session: SessionState) -> Result:
    session.context.catalog.virtual_tables.set_origin(stage.table.database, stage.series, stage.column, stage.reference)
    return DONE


@apply.register(stages.WriteTags)
def _(stage: stages.WriteTags, session: SessionState) -> Result:
    session.context.tables.upsert_tags(stage.table, stage.tags)
    return DONE


@apply.register(stages.WriteRows)
def _(stage: stages.WriteRows, session: SessionState) -> Result:
    session.context.tables.write(stage.table, stage.database, stage.rows, update_columns=stage.columns)
    return Result(affected=stage.rows.num_rows)


@apply.register(stages.DeleteRows)
def _(stage: stages.DeleteRows, session: SessionState) -> Result:
    deleted = session.context.tables.delete(stage.table, stage.database, tbnames=stage.tbnames, ranges=stage.ranges)
    return Result(affected=deleted)


@apply.register(stages.RecordStream)
def _(stage: stages.RecordStream, session: SessionState) -> Result:
    from headrace.streams.lifecycle import create

    context, plan = session.context, stage.plan
    now, snode = context.clock.now(), context.settings.snode
    definition = plan.definition(created=now, snode=snode, dialect=session.dialect, owner=session.user)
    create(context, plan, definition, if_not_exists=stage.if_not_exists)
    return DONE


@apply.register(stages.FillHistory)
def _(stage: stages.FillHistory, session: SessionState) -> Result:  # noqa: ARG001
    """Do nothing: the stream's record already says what its history is, and a driver or Airflow backfills it."""
    return DONE


@apply.register(stages.RebuildStream)
def _(stage: stages.RebuildStream, session: SessionState) -> Result:
    from headrace.streams.lifecycle import replace_stream

    context, plan, old = session.context, stage.plan, stage.record.definition
    replaces = Replacement(old.id, stage.clears) if old.target == plan.target.id else None
    # Airflow identifies the job of a DAG by the time of creation, so it has to increase.
    created = max(context.clock.now(), old.created + 1)
    definition = plan.definition(created=created, snode=old.snode, dialect=old.dialect, replaces=replaces, owner=session.user)
    replace_stream(context, plan, definition, stage.record)
    return DONE


@apply.register(stages.RedefineStream)
def _(stage: stages.RedefineStream, session: SessionState) -> Result:
    catalog, definition = session.context.catalog, stage.definition
    catalog.jobs.redefine(definition)
    catalog.events.record("job", definition.id, "ALTERED", ", ".join(stage.changes))
    return DONE


@apply.register(snode_stages.AddSnode)
def _(stage: snode_stages.AddSnode, session: SessionState) -> Result:
    from headrace.runtime.airflow import announce

    member = session.context.catalog.members.create(stage.dnode, session.context.settings.snode)
    session.context.catalog.events.record("snode", member.name, "CREATED", f"on dnode {stage.dnode}")
    announce(session.context.settings)
    return DONE


@apply.register(snode_stages.RemoveSnode)
def _(stage: snode_stages.RemoveSnode, session: SessionState) -> Result:
    from headrace.runtime.airflow import announce

    name = session.context.catalog.members.drop(stage.dnode)
    session.context.catalog.events.record("snode", name, "DROPPED", f"on dnode {stage.dnode}")
    announce(session.context.settings)
    return DONE


@apply.register(snode_stages.ListQueries)
def _(_: snode_stages.ListQueries, session: SessionState) -> Result:
    from headrace.service.running_queries import list_queries

    return list_queries(session)


@apply.register(snode_stages.EndQuery)
def _(stage: snode_stages.EndQuery, session: SessionState) -> Result:
    from headrace.service.running_queries import end_query

    end_query(stage.id, session)
    return DONE


@apply.register(stages.NotifyAirflow)
def _(stage: stages.NotifyAirflow, session: SessionState) -> Result:
    from headrace.runtime.airflow import AirflowClient  # imports an HTTP client, which only changes of jobs need
    from headrace.runtime.dag_ids import job_dag_id

    client = AirflowClient.find(session.context.settings)
    if client is not None:
        with client:
            client.announce()
            if stage.resumed:
                client.supervise(job_dag_id(stage.kind, stage.database, stage.name))
    return DONE


@apply.register(stages.RecordContinuousQuery)
def _(stage: stages.RecordContinuousQuery, session: SessionState) -> Result:
    session.context.catalog.jobs.create(replace(stage.definition, owner=session.user), state=JobState.RUNNING)
    return DONE


@apply.register(stages.RemoveJob)
def _(stage: stages.RemoveJob, session: SessionState) -> Result:
    job = stage.record.definition
    kind_of(job).drop()(session.context, job)
    return DONE


@apply.register(stages.SuspendJob)
def _(stage: stages.SuspendJob, session: SessionState) -> Result:
    """Ask for the pause, which happens at once if no process has to end work of the job first."""
    job = stage.record.definition
    session.context.catalog.jobs.set_desired(job.id, DesiredState.PAUSED)
    if kind_of(job).pauses_at_once and stage.record.state is JobState.RUNNING:
        session.context.catalog.jobs.set_state(job.id, JobState.PAUSED)
    return DONE


@apply.register(stages.ReactivateJob)
def _(stage: stages.ReactivateJob, session: SessionState) -> Result:
    """Resume at the last committed offsets, or with the backfill if the history is not complete."""
    context, record = session.context, stage.record
    if stage.ignore_untreated:
        from headrace.streams.definition.define import plan_recorded_stream
        from headrace.streams.lifecycle import skip

        skip(context, plan_recorded_stream(record.definition, context.catalog))
    is_at_once = kind_of(record.definition).pauses_at_once
    if record.state is JobState.STOPPED or (is_at_once and record.state is JobState.PAUSED):
        context.catalog.jobs.set_state(record.definition.id, record.resumed_state)
    context.catalog.jobs.set_desired(record.definition.id, DesiredState.RUNNING)
    return DONE


@apply.register(stages.RequestQuarantine)
def _(stage: stages.RequestQuarantine, session: SessionState) -> Result:
    """Ask the stream's driver, which does it as a micro-batch of its own; `affected` is the number of rows."""
    context = session.context
    if stage.rows:
        context.catalog.quarantine.request(stage.record.definition.id, stage.request, context.clock.now())
    return Result(affected=stage.rows)


@apply.register(work_stages.LoadFiles)
def _(stage: work_stages.LoadFiles, session: SessionState) -> Result:
    from headrace.service.jobs import load_files

    return Result(affected=load_files(stage, session.context))


@apply.register(work_stages.InsertFiles)
def _(stage: work_stages.InsertFiles, session: SessionState) -> Result:
    from headrace.service.jobs import insert_files

    return Result(affected=insert_files(stage, session.context))


@apply.register(work_stages.InsertQuery)
def _(stage: work_stages.InsertQuery, session: SessionState) -> Result:
    from headrace.queries.insertion import insert_query

    return Result(affected=insert_query(stage.plan, stage.target, session.context))


@apply.register(work_stages.Backfill)
def _(stage: work_stages.Backfill, session: SessionState) -> Result:
    """Backfill in this process; `affected` is the number of chunks."""
    from headrace.service.jobs import backfill

    return Result(affected=backfill(stage, session.context))


@apply.register(work_stages.BackfillQuery)
def _(stage: work_stages.BackfillQuery, session: SessionState) -> Result:
    """Backfill in this process; `affected` is the number of executions."""
    from headrace.service.jobs import backfill_query

    return Result(affected=backfill_query(stage, session.context))


@apply.register(work_stages.VerifyQuery)
def _(stage: work_stages.VerifyQuery, session: SessionState) -> Result:
    from headrace.service.verification import verify_query

    return Result(verification=verify_query(stage, session))


@apply.register(work_stages.VerifyContinuousQuery)
def _(stage: work_stages.VerifyContinuousQuery, session: SessionState) -> Result:
    from headrace.service.cq_verification import verify_continuous_query

    return Result(verification=verify_continuous_query(stage, session.context))


@apply.register(work_stages.VerifyStream)
def _(stage: work_stages.VerifyStream, session: SessionState) -> Result:
    from headrace.service.verification import verify_stream

    return Result(verification=verify_stream(stage, session.context))

"""Applying stages: the only place where a statement changes anything.

Queries and streams bring the whole engine along; it is imported by the stages that need it.
"""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Final

from headrace.errors import ExistsError, InternalError
from headrace.model.jobs import DesiredState, JobState
from headrace.service import stages
from headrace.service.results import Result, rows_result

if TYPE_CHECKING:
    from headrace.service.state import SessionState

DONE: Final = Result()


@singledispatch
def apply(stage: stages.Stage, session: SessionState) -> Result:  # noqa: ARG001
    """Carry a stage out; its result is the statement's where it is the last."""
    raise InternalError(f"there is no way to apply a {type(stage).__name__}")


@apply.register(stages.MakeDatabase)
def _(stage: stages.MakeDatabase, session: SessionState) -> Result:
    session.context.catalog.databases.create(stage.database, stage.if_not_exists)
    return DONE


@apply.register(stages.RemoveDatabase)
def _(stage: stages.RemoveDatabase, session: SessionState) -> Result:
    from headrace.streams.lifecycle import forget

    session.context.catalog.databases.drop(stage.name)
    for record in stage.streams:
        forget(session.context, record.definition.id)
    for table in stage.tables:
        session.context.tables.drop(table)
    if session.database == stage.name:
        session.database = None
    return DONE


@apply.register(stages.EnterDatabase)
def _(stage: stages.EnterDatabase, session: SessionState) -> Result:
    session.database = stage.name
    return DONE


@apply.register(stages.MakeTable)
def _(stage: stages.MakeTable, session: SessionState) -> Result:
    """Files first, then the catalog: what a crash leaves between the two is taken over or replaced by the next try."""
    catalog, table = session.context.catalog, stage.table
    with catalog.lock(f"ddl {table.database}.{table.name}"):
        if any(each.name == table.name for each in catalog.tables.all(table.database)):
            if stage.if_not_exists:
                return DONE
            raise ExistsError(f"table {table.database}.{table.name} already exists", hint="use IF NOT EXISTS, or another name")
        session.context.tables.create(table, stage.database)
        catalog.tables.create(table)
    return DONE


@apply.register(stages.RemoveTable)
def _(stage: stages.RemoveTable, session: SessionState) -> Result:
    """The catalog first: it refuses while a stream needs the table."""
    session.context.catalog.tables.drop(stage.table.database, stage.table.name)
    session.context.tables.drop(stage.table)
    return DONE


@apply.register(stages.AddColumn)
def _(stage: stages.AddColumn, session: SessionState) -> Result:
    from headrace.service.alterations import add_column

    add_column(stage, session.context)
    return DONE


@apply.register(stages.DropColumn)
def _(stage: stages.DropColumn, session: SessionState) -> Result:
    from headrace.service.alterations import drop_column

    drop_column(stage, session.context)
    return DONE


@apply.register(stages.ModifyColumn)
def _(stage: stages.ModifyColumn, session: SessionState) -> Result:
    from headrace.service.alterations import modify_column

    modify_column(stage, session.context)
    return DONE


@apply.register(stages.RenameTag)
def _(stage: stages.RenameTag, session: SessionState) -> Result:
    from headrace.service.alterations import rename_tag

    rename_tag(stage, session.context)
    return DONE


@apply.register(stages.MakeSubtables)
def _(stage: stages.MakeSubtables, session: SessionState) -> Result:
    """The catalog first: it settles whose a name is. Tags of subtables that exist stay as they are."""
    table, catalog = stage.table, session.context.catalog
    names = stage.tags.column(table.series_key).to_pylist()
    known = catalog.subtables.find(table.database, names)
    catalog.subtables.add(table.database, table.name, names)
    tagged = set(session.context.tables.read_tags(table).column(table.series_key).to_pylist()) if known else set()
    missing = [place for place, name in enumerate(names) if name not in tagged]
    if missing:
        session.context.tables.upsert_tags(table, stage.tags.take(missing))
    return DONE


@apply.register(stages.RemoveSubtables)
def _(stage: stages.RemoveSubtables, session: SessionState) -> Result:
    names = tuple(each.name for each in stage.subtables)
    session.context.tables.delete(stage.table, stage.database, tbnames=names)
    session.context.tables.drop_tags(stage.table, names)
    session.context.catalog.subtables.drop(stage.table.database, names)
    return DONE


@apply.register(stages.WriteTags)
def _(stage: stages.WriteTags, session: SessionState) -> Result:
    session.context.tables.upsert_tags(stage.table, stage.tags)
    return DONE


@apply.register(stages.WriteRows)
def _(stage: stages.WriteRows, session: SessionState) -> Result:
    session.context.tables.write(stage.table, stage.database, stage.rows, given=stage.given)
    return Result(affected=stage.rows.num_rows)


@apply.register(stages.DeleteRows)
def _(stage: stages.DeleteRows, session: SessionState) -> Result:
    gone = session.context.tables.delete(stage.table, stage.database, tbnames=stage.tbnames, ranges=stage.ranges)
    return Result(affected=gone)


@apply.register(stages.RunQuery)
def _(stage: stages.RunQuery, session: SessionState) -> Result:
    from headrace.service.spark_queries import run_query

    return run_query(stage.plan, session.context)


@apply.register(stages.ReadCatalog)
def _(stage: stages.ReadCatalog, session: SessionState) -> Result:  # noqa: ARG001
    return stage.read()


@apply.register(stages.DescribeStages)
def _(stage: stages.DescribeStages, session: SessionState) -> Result:  # noqa: ARG001
    from headrace.service.explain import describe_all

    return rows_result(("plan",), [(line,) for line in describe_all(stage.stages)])


@apply.register(stages.RecordStream)
def _(stage: stages.RecordStream, session: SessionState) -> Result:
    from headrace.streams.lifecycle import create

    context, plan = session.context, stage.plan
    definition = plan.definition(created=context.clock.now(), snode=context.settings.snode, dialect=session.dialect)
    create(context, plan, definition, if_not_exists=stage.if_not_exists)
    return DONE


@apply.register(stages.FillHistory)
def _(stage: stages.FillHistory, session: SessionState) -> Result:  # noqa: ARG001
    """Nothing more to do here: the record says what is history, and a driver or Airflow fills it."""
    return DONE


@apply.register(stages.Announce)
def _(stage: stages.Announce, session: SessionState) -> Result:
    from headrace.runtime.airflow import AirflowClient  # brings an HTTP client along: only where streams change

    client = AirflowClient.find(session.context.settings)
    if client is not None:
        with client:
            client.announce()
            if stage.resumed:
                client.supervise(stage.database, stage.stream)
    return DONE


@apply.register(stages.RemoveStream)
def _(stage: stages.RemoveStream, session: SessionState) -> Result:
    from headrace.streams.lifecycle import forget

    stream = stage.record.definition.id
    session.context.catalog.jobs.set_desired(stream, DesiredState.DROPPED)
    session.context.catalog.jobs.drop(stream)
    forget(session.context, stream)
    return DONE


@apply.register(stages.HoldStream)
def _(stage: stages.HoldStream, session: SessionState) -> Result:
    session.context.catalog.jobs.set_desired(stage.record.definition.id, DesiredState.PAUSED)
    return DONE


@apply.register(stages.ContinueStream)
def _(stage: stages.ContinueStream, session: SessionState) -> Result:
    """A stopped stream goes on where it stood: with its history where that is not filled yet."""
    context, record = session.context, stage.record
    if stage.ignore_untreated:
        from headrace.streams.definition.define import plan_of
        from headrace.streams.lifecycle import skip

        skip(context, plan_of(record.definition, context.catalog))
    if record.state is JobState.STOPPED:
        context.catalog.jobs.set_state(record.definition.id, record.resumed_state)
    context.catalog.jobs.set_desired(record.definition.id, DesiredState.RUNNING)
    return DONE


@apply.register(stages.LoadFiles)
def _(stage: stages.LoadFiles, session: SessionState) -> Result:
    from headrace.service.jobs import load_files

    return Result(affected=load_files(stage, session.context))


@apply.register(stages.Backfill)
def _(stage: stages.Backfill, session: SessionState) -> Result:
    """Run in this process; `affected` counts the chunks."""
    from headrace.service.jobs import backfill

    return Result(affected=backfill(stage, session.context))


@apply.register(stages.VerifyQuery)
def _(stage: stages.VerifyQuery, session: SessionState) -> Result:
    from headrace.service.verification import verify_query

    return Result(verdict=verify_query(stage, session))


@apply.register(stages.VerifyStream)
def _(stage: stages.VerifyStream, session: SessionState) -> Result:
    from headrace.service.verification import verify_stream

    return Result(verdict=verify_stream(stage, session.context))

"""EXPLAIN: describe the very stages that the executor would apply."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import singledispatch
from typing import TYPE_CHECKING

from headrace.errors import InternalError
from headrace.jobs.registry import kind_of
from headrace.model.jobs import job_name
from headrace.model.quarantine import QuarantineRequest
from headrace.model.statements import AlterVirtualTable
from headrace.model.streams import TriggerMode
from headrace.model.tables import ColumnReference
from headrace.model.tree_statements import TimeoutPolicy
from headrace.service import alteration_stages, snode_stages, stages, virtual_stages, work_stages
from headrace.service.describing import explain_plan, indent
from headrace.service.estimates import describe_execution
from headrace.service.stage import Stage
from headrace.sql import to_sql

if TYPE_CHECKING:
    from headrace.streams.definition.define import StreamPlan


@singledispatch
def describe(stage: Stage) -> list[str]:
    """Return lines that describe a stage."""
    raise InternalError(f"no description for stage {type(stage).__name__}")


@describe.register
def _(stage: stages.MakeTable) -> list[str]:
    table = stage.table
    return [f"create {table.kind} table {table.database}.{table.name}: {len(table.columns)} columns, {len(table.tags)} tags"]


@describe.register
def _(stage: stages.RemoveTable) -> list[str]:
    return [f"drop table {stage.table.database}.{stage.table.name} with all its rows"]


@describe.register
def _(stage: alteration_stages.AddColumn) -> list[str]:
    noun = "tag" if stage.is_tag else "column"
    return [f"add {noun} {stage.column.name} {stage.column.type} to {stage.table.database}.{stage.table.name}, NULL so far"]


@describe.register
def _(stage: alteration_stages.DropColumn) -> list[str]:
    table = f"{stage.table.database}.{stage.table.name}"
    if stage.is_tag:
        return [f"drop tag {stage.name} of {table} with its values"]
    return [f"drop column {stage.name} of {table}; its values stay in the Delta table, hidden"]


@describe.register
def _(stage: alteration_stages.ModifyColumn) -> list[str]:
    noun = "tag" if stage.is_tag else "column"
    return [f"change {noun} {stage.column.name} of {stage.table.database}.{stage.table.name} to {stage.column.type}"]


@describe.register
def _(stage: alteration_stages.RenameTag) -> list[str]:
    return [f"rename tag {stage.old} of {stage.table.database}.{stage.table.name} to {stage.new}"]


@describe.register
def _(stage: alteration_stages.SetTtl) -> list[str]:
    tables = ", ".join(f"{stage.table.database}.{name}" for name in stage.names)
    return [f"drop {tables} {stage.days} days from now" if stage.days else f"never drop {tables}"]


@describe.register
def _(stage: alteration_stages.RenameColumn) -> list[str]:
    head = f"rename column {stage.old} of {stage.table.database}.{stage.table.name} to {stage.new}"
    return [f"{head}: copy its values; those of {stage.old} stay in the Delta table, hidden"]


@describe.register
def _(stage: alteration_stages.SetComment) -> list[str]:
    return [f"change the comment of {stage.table.database}.{stage.table.name}"]


@describe.register
def _(stage: stages.MakeSubtables) -> list[str]:
    return [f"create {stage.tags.num_rows} subtables of {stage.table.database}.{stage.table.name} if missing"]


@describe.register
def _(stage: stages.RemoveSubtables) -> list[str]:
    return [f"drop {', '.join(subtable.name for subtable in stage.subtables)} with all rows"]


@describe.register
def _(stage: virtual_stages.MakeVirtualTable) -> list[str]:
    table = stage.table
    head = f"create virtual table {table.database}.{table.name}: {len(table.columns)} columns"
    return [head, *indent(explain_references(stage.references))]


@describe.register
def _(stage: virtual_stages.MakeVirtualSubtable) -> list[str]:
    head = f"create virtual subtable {stage.name} of {stage.table.database}.{stage.table.name}"
    return [head, *indent(explain_references(stage.references))]


@describe.register
def _(stage: virtual_stages.ChangeVirtualTable) -> list[str]:
    return [to_sql(AlterVirtualTable(stage.change)), *indent(explain_references([stage.added] if stage.added else []))]


@describe.register
def _(stage: virtual_stages.ChangeOrigin) -> list[str]:
    origin = "NULL" if stage.reference is None else str(stage.reference)
    return [f"column {stage.column} of virtual table {stage.table.database}.{stage.series} comes from {origin}"]


def explain_references(references: Iterable[ColumnReference]) -> list[str]:
    """Describe where the columns of a virtual table come from."""
    return [f"{reference.column} from {reference}" for reference in references]


@describe.register
def _(stage: stages.WriteTags) -> list[str]:
    return [f"set tags of {stage.tags.num_rows} subtables of {stage.table.name}"]


@describe.register
def _(stage: stages.WriteRows) -> list[str]:
    table = stage.table
    return [f"write {stage.rows.num_rows} rows to {table.database}.{table.name} (columns {', '.join(stage.columns)}), one commit"]


@describe.register
def _(stage: work_stages.InsertFiles) -> list[str]:
    files = ", ".join(file.path.name for file in stage.files)
    return [f"load {files} into {stage.table.database}.{stage.table.name}, one commit"]


@describe.register
def _(stage: work_stages.InsertQuery) -> list[str]:
    target = stage.target
    columns = ", ".join(target.columns)
    name = f"{target.table.database}.{target.subtable or target.table.name}"
    return [f"write the rows of a query to {name} (columns {columns}), one commit", *explain_plan(stage.plan)]


@describe.register
def _(stage: stages.DeleteRows) -> list[str]:
    ranges = "all times" if stage.ranges is None else f"{len(stage.ranges)} time ranges"
    subtables = "all subtables" if stage.tbnames is None else ", ".join(stage.tbnames)
    return [f"delete from {stage.table.database}.{stage.table.name}: {subtables}, {ranges}"]


@describe.register
def _(stage: stages.RecordStream) -> list[str]:
    plan = stage.plan
    options = plan.options
    recalculation = "mark their windows" if plan.defers_changes else "recalculate their windows"
    statistics = [
        f"trigger {options.trigger.value}",
        f"results {describe_emission(plan)}",
        f"watermark {options.watermark}",
        f"expired rows {'ignored and counted' if options.ignore_expired else recalculation}",
        f"updates {'count as new rows' if plan.ignores_updates else recalculation}",
    ]
    head = f"maintain stream {plan.database}.{plan.name} on changes of {', '.join(map(str, plan.sources))}"
    execution = describe_execution(plan, stage.settings)
    return [explain_target(plan), head, *indent([*statistics, *execution]), *explain_plan(plan.query)]


def describe_emission(plan: StreamPlan) -> str:
    """Describe when a stream writes results."""
    options, unit = plan.options, "row" if plan.query.window is None else "window"
    match options.trigger:
        case TriggerMode.AT_ONCE:
            return f"whenever a {unit} changes"
        case TriggerMode.MAX_DELAY:
            return f"when event time closes a window, and at the latest {options.max_delay} after it has changed"
        case TriggerMode.CONTINUOUS_WINDOW_CLOSE:
            return f"when event time closes a window; later changes after {options.recalculation_interval}"
        case TriggerMode.FORCE_WINDOW_CLOSE:
            what = "for each point" if plan.query.interp is not None else "at the end of each window"
            return f"by the clock, once, {what} plus the watermark delay"
        case _:
            return "when event time closes a window, and again when it changes"


def explain_target(plan: StreamPlan) -> str:
    """Describe the target's columns and tags, and whether it exists."""
    target = plan.target
    verb = "write to existing" if plan.target_exists else "create"
    columns = ", ".join(f"{column.name} {column.type}" for column in target.columns)
    tags = ", ".join(f"{tag.name} {tag.type}" for tag in target.tags)
    return f"{verb} target {target.database}.{target.name} ({columns}) tags ({tags})"


@describe.register
def _(stage: stages.FillHistory) -> list[str]:
    return [f"fill history: {stage.rows} stored rows in about {stage.chunks} chunks, on Spark", f"  {stage.estimate.text}"]


@describe.register
def _(stage: stages.RebuildStream) -> list[str]:
    plan, old = stage.plan, stage.record.definition
    target = f"{plan.target.database}.{plan.target.name}"
    lines = [f"{'replace' if stage.differences else 'reset'} stream {old}", *indent(list(stage.differences))]
    if old.target != plan.target.id:
        lines += [explain_target(plan), f"leave the rows of {old.target} as they are"]
    elif stage.clears:
        lines.append(f"replace all rows of the target {target}")
    else:
        lines.append(f"replace the stream's rows in the target {target}")
    return [*lines, f"recompute {stage.rows} stored rows of {old.source} in about {stage.chunks} chunks, on Spark"]


@describe.register
def _(stage: stages.RedefineStream) -> list[str]:
    changes = indent(list(stage.changes) or ["nothing changes"])
    return [f"alter stream {stage.definition}, which keeps its target and its position", *changes]


@describe.register
def _(stage: snode_stages.AddSnode) -> list[str]:
    return [f"add an snode on dnode {stage.dnode}; Airflow starts its driver, which takes its share of the streams"]


@describe.register
def _(stage: snode_stages.RemoveSnode) -> list[str]:
    return [f"remove the snode on dnode {stage.dnode}; its streams move to that of dnode 1"]


@describe.register
def _(_: snode_stages.ListQueries) -> list[str]:
    return ["ask the snodes that are alive for the queries that they run"]


@describe.register
def _(stage: snode_stages.EndQuery) -> list[str]:
    return [f"have the snode that runs query {stage.id} end it"]


@describe.register
def _(stage: stages.NotifyAirflow) -> list[str]:
    return [f"notify Airflow, if it can be reached, of {stage.kind} {job_name(stage.database, stage.name)}"]


@describe.register
def _(stage: stages.RecordContinuousQuery) -> list[str]:
    schedule = stage.definition.schedule
    start, end = schedule.range_at(schedule.first)
    instants = [format_instant(ms) for ms in (schedule.first, start, end)]
    missed = "each is computed, in order" if schedule.policy is TimeoutPolicy.BLOCKED else "only the latest is computed"
    return [
        f"create continuous query {stage.definition}",
        f"  first at {instants[0]}, over [{instants[1]}, {instants[2]}); then every {schedule.every} ms",
        f"  intervals missed: {missed}",
    ]


def format_instant(ms: int) -> str:
    """Return an instant in epoch milliseconds as text, in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(sep=" ")


@describe.register
def _(stage: stages.RemoveJob) -> list[str]:
    definition = stage.record.definition
    target = "what it has written" if definition.target is None else definition.target
    return [f"drop {definition.kind} {definition}; {target} stays"]


@describe.register
def _(stage: stages.SuspendJob) -> list[str]:
    definition = stage.record.definition
    return [f"pause {definition.kind} {definition}"]


@describe.register
def _(stage: stages.ReactivateJob) -> list[str]:
    definition = stage.record.definition
    catch_up = "skipping rows written meanwhile" if stage.ignore_untreated else kind_of(definition).resumption
    return [f"resume {definition.kind} {definition}, {catch_up}"]


@describe.register
def _(stage: stages.RequestQuarantine) -> list[str]:
    rows = f"{stage.rows} rows in quarantine of stream {stage.record.definition}"
    if stage.request is QuarantineRequest.REPLAY:
        return [f"process {rows} again"]
    return [f"drop {rows}: its results leave them out for good"]


@describe.register
def _(stage: work_stages.LoadFiles) -> list[str]:
    table, count = stage.table, len(stage.files)
    size = f"{count} file{'' if count == 1 else 's'} of {stage.bytes:,} bytes"
    subtable = f", all rows of {stage.subtable}" if stage.subtable not in (None, table.name) else ""
    return [f"load {size} into {table.database}.{table.name}{subtable}: all rows or none"]


@describe.register
def _(stage: work_stages.Backfill) -> list[str]:
    stream = stage.definition
    start = "from the first row" if stage.start is None else f"from {stage.start}"
    end = "up to those still open" if stage.end is None else f"before {stage.end}"
    return [f"compute windows of stream {stream.database}.{stream.name} again, {start}, {end}, on Spark in this process"]


@describe.register
def _(stage: work_stages.BackfillQuery) -> list[str]:
    start = "from its first one" if stage.start is None else f"from {format_instant(stage.start)}"
    end = "to now" if stage.end is None else f"before {format_instant(stage.end)}"
    head = f"compute {stage.executions} interval{'' if stage.executions == 1 else 's'} of continuous query {stage.definition} again"
    return [f"{head}, {start}, {end}, in this process; the rows of each are replaced"]


@describe.register
def _(stage: work_stages.VerifyQuery) -> list[str]:
    return ["query on Spark", *explain_plan(stage.plan), "run it again with DuckDB, and compare"]


@describe.register
def _(stage: work_stages.VerifyContinuousQuery) -> list[str]:
    which = "its latest execution" if stage.start is None and stage.end is None else "the executions in the range"
    return [f"compare the targets of continuous query {stage.definition} with what DuckDB computes, for {which}"]


@describe.register
def _(stage: work_stages.VerifyStream) -> list[str]:
    stream = stage.definition
    return [f"compare {stream.target} with what DuckDB computes from {stream.source}"]

"""EXPLAIN of a plan: the steps that will run, from the scan outwards, in words."""

from __future__ import annotations

from headrace.compute.nodes import columns_of
from headrace.compute.plan import AnyPlan, AsofMatch, JoinSource, Plan, PlanSource, Regrouped, UnionPlan
from headrace.compute.plan_sources import OneRow, Scan, ScanUnion, SeriesRows
from headrace.model.tables import TableId


def explain(plan: AnyPlan) -> list[str]:
    """Describe a plan line by line. Sub-queries and sides of a union are indented."""
    if isinstance(plan, UnionPlan):
        sides = [*indent(explain(plan.left)), *indent(explain(plan.right))]
        return [f"union{' all' if plan.all else ', duplicates removed'}", *sides, *describe_bounds(plan)]
    lines = describe_source(plan.source)
    lines += [f"filter: {plan.filter}"] if plan.filter else []
    lines += describe_time_range(plan)
    verb = "partition" if plan.order.partitioned else "group"
    lines += [f"{verb} by {', '.join(key.name for key in plan.keys)}"] if plan.keys else []
    lines += [f"window: {plan.window}"] if plan.window is not None else []
    lines += describe_aggregates(plan)
    lines += describe_code(plan)
    if plan.fill is not None:
        lines.append(f"fill: {plan.fill.mode.value}{', between existing windows of a group' if plan.fill.between else ''}")
    lines += [f"fill: {plan.gap_fill.mode.lower()}"] if plan.gap_fill is not None else []
    lines += [f"having: {plan.groups.having}"] if plan.groups.having else []
    lines += ["distinct"] if plan.order.distinct else []
    return [*lines, *describe_bounds(plan), f"result: {', '.join(f'{output.name} {output.type}' for output in plan.outputs)}"]


def indent(lines: list[str]) -> list[str]:
    """Indent lines by one level."""
    return [f"  {line}" for line in lines]


def describe_references(scan: Scan) -> list[str]:
    columns: dict[TableId, dict[str, None]] = {}
    for reference in scan.references_read:
        columns.setdefault(reference.origin, {})[reference.origin_column] = None
    return [f"scan {origin}: {', '.join(names)}" for origin, names in columns.items()]


def describe_source(source: PlanSource) -> list[str]:
    match source:
        case Scan():
            restriction = (
                f", subtable {source.subtable}" if source.subtable else f", series {source.condition}" if source.condition else ""
            )
            head = f"{source.table.database}.{source.table.name}{restriction}: {', '.join(source.columns)}"
            if source.table.is_virtual:
                return [f"align by time {head}", *indent(describe_references(source))]
            return [f"scan {head}"]
        case ScanUnion(scans=scans):
            return [f"union of {len(scans)} tables", *indent([line for scan in scans for line in describe_source(scan)])]
        case JoinSource():
            condition = f" on {source.condition}" if source.condition else describe_match(source.asof)
            return [f"{source.kind} join{condition}", *indent(describe_source(source.left)), *indent(describe_source(source.right))]
        case SeriesRows():
            names = ", ".join(str(node) for columns in source.columns for node, _ in columns)
            head = f"{'align by time' if source.aligned else 'rows of'} {len(source.devices)} devices: {names}"
            return [head, *indent([line for scan in source.scans for line in describe_source(scan)])]
        case Regrouped(rows=rows, regrouping=regrouping):
            names = ", ".join(str(node) for node, _ in regrouping.columns)
            return [f"{regrouping.slots} copies of each row: {names}", *indent(describe_source(rows))]
        case OneRow():
            return ["one row, no table"]
        case Plan() | UnionPlan():
            return ["sub-query", *indent(explain(source))]


def describe_time_range(plan: Plan) -> list[str]:
    first, last = plan.range
    if first is None and last is None:
        return []
    ends = (f"from {first}" if first is not None else "", f"to {last}" if last is not None else "")
    return [f"time range: {' '.join(end for end in ends if end)} ({plan.precision} since the epoch, prunes files)"]


def describe_aggregates(plan: Plan) -> list[str]:
    return [
        f"aggregate {aggregate.text}: keeps {', '.join(str(partial.update) for partial in aggregate.partials)}"
        if aggregate.partials
        else f"aggregate {aggregate.text}"
        for aggregate in plan.groups.aggregates
    ]


def describe_code(plan: Plan) -> list[str]:
    """Describe where functions of users run."""
    calls = {call.column: call.rule.note for call in plan.groups.calls}
    notes = [
        (aggregate.function, calls[name])
        for aggregate in plan.groups.aggregates
        for name in columns_of(aggregate.final)
        if name in calls
    ]
    notes += [(call.function, call.rule.note) for call in plan.series.arrow_calls]
    return [f"{function} runs {note}" for function, note in notes if note]


def describe_bounds(plan: AnyPlan) -> list[str]:
    names, order = {output.column: output.name for output in plan.outputs}, plan.order
    sorts = ", ".join(f"{names.get(sort.column, sort.column)}{' descending' if sort.descending else ''}" for sort in order.sorts)
    lines = [f"order by {sorts}"] if sorts else []
    limits = [f"limit {order.limit}" if order.limit is not None else "", f"offset {order.offset}" if order.offset else ""]
    return lines + ([" ".join(limit for limit in limits if limit)] if any(limits) else [])


def describe_match(match: AsofMatch | None) -> str:
    if match is None:
        return ""
    conditions = [f"{match.times[0]} {match.operator} {match.times[1]}", *(f"{own} = {other}" for own, other in match.keys)]
    return f" of the closest {match.limit} on {' AND '.join(conditions)}"

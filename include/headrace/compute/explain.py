"""EXPLAIN of a plan: what will run, from the scan outwards, in words."""

from __future__ import annotations

from headrace.compute.plan import (
    AnyPlan,
    CountWindow,
    EventWindow,
    IntervalWindow,
    JoinSource,
    Nothing,
    Plan,
    PlanSource,
    Scan,
    ScanUnion,
    SessionWindow,
    StateWindow,
    UnionPlan,
    WindowPlan,
)


def explain(plan: AnyPlan) -> list[str]:
    """Lines, indented where one source is inside another."""
    if isinstance(plan, UnionPlan):
        sides = [*indented(explain(plan.left)), *indented(explain(plan.right))]
        return [f"union{' all' if plan.all else ', duplicates removed'}", *sides, *bounds(plan)]
    lines = source(plan.source)
    lines += [f"filter: {plan.filter}"] if plan.filter else []
    lines += time_range(plan)
    lines += [f"{'partition' if plan.partitioned else 'group'} by {', '.join(key.name for key in plan.keys)}"] if plan.keys else []
    lines += [window(plan.window)] if plan.window is not None else []
    lines += aggregates(plan)
    lines += [f"fill: {plan.fill.mode.value}"] if plan.fill is not None else []
    lines += [f"having: {plan.having}"] if plan.having else []
    lines += ["distinct"] if plan.distinct else []
    return [*lines, *bounds(plan), f"result: {', '.join(f'{output.name} {output.type}' for output in plan.outputs)}"]


def indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def source(of: PlanSource) -> list[str]:
    match of:
        case Scan():
            only = f", subtable {of.subtable}" if of.subtable else f", series {of.condition}" if of.condition else ""
            return [f"scan {of.table.database}.{of.table.name}{only}: {', '.join(of.columns)}"]
        case ScanUnion(scans=scans):
            return [f"union of {len(scans)} tables", *indented([line for scan in scans for line in source(scan)])]
        case JoinSource():
            condition = f" on {of.condition}" if of.condition else ""
            return [f"{of.kind} join{condition}", *indented(source(of.left)), *indented(source(of.right))]
        case Nothing():
            return ["one row, no table"]
        case Plan() | UnionPlan():
            return ["sub-query", *indented(explain(of))]


def time_range(plan: Plan) -> list[str]:
    """The range that WHERE leaves, which chooses files by their statistics."""
    first, last = plan.range
    if first is None and last is None:
        return []
    ends = (f"from {first}" if first is not None else "", f"to {last}" if last is not None else "")
    return [f"time range: {' '.join(end for end in ends if end)} ({plan.precision} since the epoch, prunes files)"]


def window(of: WindowPlan) -> str:
    match of:
        case IntervalWindow():
            sliding = f", a new one every {of.sliding}" if of.slides else ""
            offset = f", shifted by {of.offset}" if of.offset.count else ""
            return f"window: INTERVAL of {of.length}{sliding}{offset}{f', calendar of {of.zone}' if of.zone else ''}"
        case SessionWindow():
            return f"window: SESSION, gap of {of.gap} ticks"
        case StateWindow():
            return f"window: STATE of {of.state.sql}"
        case EventWindow():
            return f"window: EVENT from {of.start} to {of.end}"
        case CountWindow():
            return f"window: COUNT of {of.count} rows, a new one every {of.sliding}"


def aggregates(plan: Plan) -> list[str]:
    """Each aggregate, with the partial aggregates that a segment keeps of it."""
    return [
        f"aggregate {each.text}: keeps {', '.join(partial.update for partial in each.partials)}"
        if each.partials
        else f"aggregate {each.text}"
        for each in plan.aggregates
    ]


def bounds(plan: AnyPlan) -> list[str]:
    """ORDER BY and LIMIT."""
    names = {output.column: output.name for output in plan.outputs}
    sorts = ", ".join(f"{names.get(sort.column, sort.column)}{' descending' if sort.descending else ''}" for sort in plan.sorts)
    lines = [f"order by {sorts}"] if sorts else []
    limits = [f"limit {plan.limit}" if plan.limit is not None else "", f"offset {plan.offset}" if plan.offset else ""]
    return lines + ([" ".join(limit for limit in limits if limit)] if any(limits) else [])

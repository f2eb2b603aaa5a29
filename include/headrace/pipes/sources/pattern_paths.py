"""Which of a statement's paths a pattern of series covers, and cutting statements to those."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import singledispatch

from headrace.model.paths import ANY_LEVELS, PathPattern, States, advance, parse_path, split_path, split_prefix
from headrace.model.tree_statements import (
    ActivateTemplate,
    AlterTimeseries,
    CreateTimeseries,
    CreateTreeDatabase,
    DeactivateTemplate,
    DropTimeseries,
    DropTreeDatabases,
    SetTemplate,
    SetTTL,
    TreeStatement,
)
from headrace.pipes.selection import Pattern, PrefixPattern, TreePattern

Nodes = tuple[str, ...]


def covers(pattern: Pattern, path: str) -> bool:
    """Return whether all series below a path match."""
    return (ANY_LEVELS,) in remainders(pattern, path)


def matches_device(pattern: Pattern, device: str) -> bool:
    """Return whether series of a device, not only of those below it, may match."""
    return any(len(rest) == 1 for rest in remainders(pattern, device))


def remainders(pattern: Pattern, path: str) -> set[Nodes]:
    """Return the patterns that the rest of a series' path has to match one of, if the path is where it begins."""
    if isinstance(pattern, PrefixPattern):
        return _prefix_remainders(pattern.prefix, f"{path}.")
    return _tree_remainders(pattern.pattern.nodes, split_path(path)) if isinstance(pattern, TreePattern) else set()


def _prefix_remainders(prefix: str, below: str) -> set[Nodes]:
    if below.startswith(prefix):
        return {(ANY_LEVELS,)}
    if not prefix.startswith(below):
        return set()
    nodes, last = split_prefix(prefix[len(below) :])
    if not last:
        return {(*nodes, ANY_LEVELS)}
    start = f"{last}*" if not last.startswith("`") else last
    return {(*nodes, start), (*nodes, start, ANY_LEVELS)}


def _tree_remainders(pattern: Nodes, path: Nodes) -> set[Nodes]:
    states: States = frozenset((0,))
    for node in path:
        states = advance(pattern, states, node)
    return {pattern[state:] for state in states if state < len(pattern)}


@singledispatch
def cut(statement: TreeStatement, pattern: Pattern) -> Iterator[TreeStatement]:  # noqa: ARG001
    """Yield what a statement does to the series that match, none if it is about others. Templates are of no path.

    Its paths have no wildcards, but that of a time to live may end with `**`.
    """
    yield statement


@cut.register(CreateTreeDatabase)
@cut.register(SetTemplate)
def _cut_subtree(statement: CreateTreeDatabase | SetTemplate, pattern: Pattern) -> Iterator[TreeStatement]:
    if remainders(pattern, str(statement.path)):
        yield statement


@cut.register
def _cut_creation(statement: CreateTimeseries, pattern: Pattern) -> Iterator[TreeStatement]:
    device = str(statement.device)
    series = tuple(one for one in statement.series if pattern.matches(device, one.measurement))
    if series:
        yield replace(statement, series=series)


@cut.register
def _cut_alteration(statement: AlterTimeseries, pattern: Pattern) -> Iterator[TreeStatement]:
    if is_selected(pattern, statement.path):
        yield statement


@cut.register
def _cut_removal(statement: DropTimeseries, pattern: Pattern) -> Iterator[TreeStatement]:
    paths = tuple(path for path in statement.patterns if is_selected(pattern, path))
    if paths:
        yield DropTimeseries(paths)


@cut.register
def _cut_activation(statement: ActivateTemplate, pattern: Pattern) -> Iterator[TreeStatement]:
    if matches_device(pattern, str(statement.path)):
        yield statement


@cut.register
def _cut_deactivation(statement: DeactivateTemplate, pattern: Pattern) -> Iterator[TreeStatement]:
    paths = tuple(path for path in statement.patterns if matches_device(pattern, str(path)))
    if paths:
        yield replace(statement, patterns=paths)


def is_selected(pattern: Pattern, series: PathPattern) -> bool:
    """Return whether a series matches, by its path."""
    return pattern.matches(str(PathPattern(series.nodes[:-1])), series.nodes[-1])


@cut.register
def _cut_databases(statement: DropTreeDatabases, pattern: Pattern) -> Iterator[TreeStatement]:
    """Yield the removal of databases, or of the series of them that match."""
    for path in statement.patterns:
        if covers(pattern, str(path)):
            yield DropTreeDatabases((path,))
            continue
        for rest in sorted(remainders(pattern, str(path))):
            yield DropTimeseries((PathPattern((*path.nodes, *rest)),))


@cut.register
def _cut_ttl(statement: SetTTL, pattern: Pattern) -> Iterator[TreeStatement]:
    """Yield the time to live of a path, of the part of it that matches. Other parts of paths cannot have a time to live."""
    nodes = statement.path.nodes
    is_open = nodes[-1] == ANY_LEVELS
    base = str(PathPattern(nodes[:-1] if is_open else nodes))
    if covers(pattern, base) or (not is_open and matches_device(pattern, base)):
        yield statement
        return
    for rest in sorted(remainders(pattern, base)) if is_open and parse_path(base) is not None else ():
        own = (*nodes[:-1], *rest)
        if rest[-1] == ANY_LEVELS and not PathPattern(own[:-1]).has_wildcard:
            yield replace(statement, path=PathPattern(own[:-1]))
            yield replace(statement, path=PathPattern(own))

"""Modules do not import each other in cycles."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import headrace

ROOT = Path(headrace.__file__).parent


def module_name(path: Path) -> str:
    parts = (ROOT.name, *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def executed_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a module that may run, including function bodies but not imports for type checking."""
    yield node
    is_for_types = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    for child in node.orelse if is_for_types and isinstance(node, ast.If) else ast.iter_child_nodes(node):
        yield from executed_nodes(child)


def imported_modules(tree: ast.AST, modules: Container[str]) -> Iterator[str]:
    """Yield the modules that a module imports at its top or in functions."""
    for node in executed_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                yield submodule if submodule in modules else node.module


def import_graph(root: Path = ROOT) -> dict[str, set[str]]:
    """Return the modules of the package that each module imports."""
    paths = {module_name(path): path for path in root.rglob("*.py")}
    imports = {name: imported_modules(ast.parse(path.read_text()), paths) for name, path in paths.items()}
    return {name: {module for module in imported if module in paths and module != name} for name, imported in imports.items()}


def find_cycle(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_there_is_no_import_cycle() -> None:
    assert find_cycle(import_graph()) == []


@pytest.mark.parametrize("cycle", [["a", "b"], ["a", "b", "c"]])
def test_a_cycle_would_be_found(cycle: list[str]) -> None:
    graph = {name: {cycle[(index + 1) % len(cycle)]} for index, name in enumerate(cycle)}
    assert set(find_cycle(graph)) == set(cycle)

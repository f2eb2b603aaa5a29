"""No two modules import each other, neither directly nor by way of others."""

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


def executed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what of a module may run, function bodies included; imports for type checking alone never do."""
    yield node
    is_for_types = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    for child in node.orelse if is_for_types and isinstance(node, ast.If) else ast.iter_child_nodes(node):
        yield from executed(child)


def imported_modules(tree: ast.AST, modules: Container[str]) -> Iterator[str]:
    """Yield what a module imports, at its top or within functions."""
    for node in executed(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                yield submodule if submodule in modules else node.module


def import_graph(root: Path = ROOT) -> dict[str, set[str]]:
    """The modules of the package that each of them imports."""
    paths = {module_name(path): path for path in root.rglob("*.py")}
    imports = {name: imported_modules(ast.parse(path.read_text()), paths) for name, path in paths.items()}
    return {name: {each for each in imported if each in paths and each != name} for name, imported in imports.items()}


def find_cycle(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_itself_by_way_of_others() -> None:
    assert find_cycle(import_graph()) == []


@pytest.mark.parametrize("cycle", [["a", "b"], ["a", "b", "c"]])
def test_a_cycle_would_be_found(cycle: list[str]) -> None:
    graph = {name: {cycle[(place + 1) % len(cycle)]} for place, name in enumerate(cycle)}
    assert set(find_cycle(graph)) == set(cycle)

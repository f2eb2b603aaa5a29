"""The guide to extending Headrace names files that exist, and all files that know a kind of window."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT

PACKAGE = ROOT / "include" / "headrace"
PAGE = (ROOT / "docs" / "guides" / "extend.md").read_text()
FILE = re.compile(r"`((?:[\w-]+/)*[\w-]+(?:/|\.py))`")


def files_that_name(kind: str) -> list[str]:
    """Return the files of the package that name a class."""
    files = PACKAGE.rglob("*.py")
    return sorted(str(path.relative_to(PACKAGE)) for path in files if re.search(rf"\b{kind}\b", path.read_text()))


@pytest.mark.parametrize("name", sorted(set(FILE.findall(PAGE))))
def test_files_of_the_guide_exist(name: str) -> None:
    assert any((folder / name).exists() for folder in (ROOT, PACKAGE)), name


@pytest.mark.parametrize("kind", ["CountClause", "CountWindow"])
def test_the_guide_names_all_files_that_know_a_kind_of_window(kind: str) -> None:
    assert [file for file in files_that_name(kind) if f"`{file}`" not in PAGE] == []


def test_only_what_creates_windows_knows_their_kind() -> None:
    kinds = ("IntervalWindow", "SessionWindow", "StateWindow", "EventWindow", "CountWindow")
    own = {f"compute/windows/{name}.py" for name in ("intervals", "sessions", "states", "events", "counts")}
    creating = {
        "compute/tdengine/limits.py",
        "compute/iotdb/windows.py",
        "compute/binding/select.py",
        "streams/clocked/processor.py",
    }
    with_fill = {"compute/plan.py", "compute/windows/kind.py", "compute/windows/fill.py"}  # FILL is for INTERVAL alone
    assert {file for kind in kinds for file in files_that_name(kind)} <= own | creating | with_fill

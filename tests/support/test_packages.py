"""Folders of tests are packages: a package in a folder that is none takes a name at the top, as `iotdb`, from a real package."""

from __future__ import annotations

from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parents[1]


def test_every_folder_of_tests_is_a_package() -> None:
    folders = {path.parent for path in TESTS.rglob("*.py")}
    assert [str(folder.relative_to(TESTS)) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []

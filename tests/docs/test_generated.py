"""The generated pages match the code."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

import headrace
from headrace.cli.app import app
from headrace.cli.docs import PAGES, list_errors
from tests.docs.pages import ROOT

REFERENCE: Final = ROOT / "docs" / "reference"


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    assert (REFERENCE / name).read_text() == PAGES[name](), "run `make docs`"


def test_the_docs_command_writes_every_page(tmp_path: Path) -> None:
    folder = tmp_path / "reference"
    result = CliRunner().invoke(app, ["docs", "--write", str(folder)])
    assert result.output.split() == [str(folder / name) for name in PAGES]
    assert {page.name for page in folder.iterdir()} == set(PAGES)


def test_every_error_is_exported() -> None:
    for kind in list_errors():
        assert getattr(headrace, kind.__name__) is kind
        assert kind.__name__ in headrace.__all__

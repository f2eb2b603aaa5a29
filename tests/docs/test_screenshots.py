"""Each picture of the page in the documentation is one of those that `make screenshots` takes, and each of these is shown."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT
from tests.docs.screenshots import FOLDER, MAX_BYTES, VIEWS, View

SHOWN = re.compile(r"!\[([^\]]*)\]\((?:\.\./)*(?:docs/)?pictures/([^)]+)\)")


def shown() -> set[tuple[str, str]]:
    """Return titles and files of the pictures that pages show."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    return {match for page in pages for match in SHOWN.findall(page.read_text())}


def test_pages_show_the_views_by_their_titles() -> None:
    assert shown() == {(view.title, view.file.name) for view in VIEWS}
    assert {file.name for file in FOLDER.iterdir()} == {view.file.name for view in VIEWS}


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_a_picture_is_small(view: View) -> None:
    assert 5_000 < view.file.stat().st_size < MAX_BYTES

"""The picture of pipes shows the built-in plugins, and the page of each end is linked beside it."""

from __future__ import annotations

from tests.docs.pages import ROOT
from tests.docs.pipe_pictures import FILE, TITLE, draw

PAGE = ROOT / "docs/guides/pipes.md"


def test_the_picture_is_that_of_the_plugins() -> None:
    assert FILE.read_text() == draw(), "run `make docs`"


def test_the_page_shows_the_picture_and_links_every_page_of_an_end() -> None:
    text = PAGE.read_text()
    assert f"![{TITLE}](pipes/{FILE.name})" in text
    assert [page.name for page in PAGE.parent.glob("pipes-*.md") if f"({page.name})" not in text] == []

"""Pages quote the figures of one file."""

from __future__ import annotations

from tests.docs.figures import FIGURE, read_figures, with_figures
from tests.docs.pages import markdown_pages


def test_pages_quote_the_present_figures() -> None:
    figures = read_figures()
    stale = [page.name for page in markdown_pages() if with_figures(page.read_text(), figures) != page.read_text()]
    assert stale == [], "run `make docs`"


def test_every_figure_is_quoted() -> None:
    quoted = {match[2] for page in markdown_pages() for match in FIGURE.finditer(page.read_text())}
    assert quoted == set(read_figures())

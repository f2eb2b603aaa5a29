"""The figures that pages quote: each between two comments, from `docs/figures.toml`. `python -m tests.docs.figures` writes them."""

from __future__ import annotations

import re
import tomllib
from typing import Final

from tests.docs.pages import ROOT, markdown_pages

FIGURE: Final = re.compile(r"(<!-- figure: (\w+) -->)([^<]*)(<!-- end -->)")


def read_figures() -> dict[str, str]:
    """Return the figures by name."""
    return tomllib.loads((ROOT / "docs/figures.toml").read_text())


def with_figures(text: str, figures: dict[str, str]) -> str:
    """Return the text of a page with the present figures."""
    return FIGURE.sub(lambda match: f"{match[1]}{figures[match[2]]}{match[4]}", text)


def main() -> None:
    """Write the figures into all pages."""
    figures = read_figures()
    for page in markdown_pages():
        page.write_text(with_figures(page.read_text(), figures))


if __name__ == "__main__":
    main()

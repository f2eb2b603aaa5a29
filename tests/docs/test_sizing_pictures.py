"""The pictures of the page on sizing are those of the measured costs."""

from __future__ import annotations

from tests.docs.sizing_pictures import BREAKS, CHECKS, FOLDER, PAGE, pictures, with_generated


def test_the_pictures_are_those_of_the_costs() -> None:
    assert {file.name: file.read_text() for file in FOLDER.glob("*.svg")} == pictures(), "run `make docs`"


def test_the_page_shows_both_and_the_table() -> None:
    page = PAGE.read_text()
    assert f"![{BREAKS}](sizing/breaks.svg)" in page
    assert f"![{CHECKS}](sizing/checks.svg)" in page
    assert with_generated(page) == page, "run `make docs`"

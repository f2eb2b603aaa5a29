"""The pictures of the function library show what the functions return."""

from __future__ import annotations

from headrace.library.signatures import SIGNATURES
from tests.docs.charts import draw
from tests.docs.library_pictures import FOLDER, SHARED, STATISTICS, figures, image
from tests.library.examples import PAGE


def test_every_function_has_a_picture() -> None:
    assert set(figures()) - {"quality", "statistics", "integral", "pairs"} == set(SIGNATURES) - {*SHARED, *STATISTICS}


def test_the_pictures_are_those_of_the_functions() -> None:
    drawn = {f"{name}.svg": draw(title, panels) for name, (title, panels) in figures().items()}
    files = {file.name: file.read_text() for file in FOLDER.glob("*.svg")}
    assert [name for name in drawn.keys() | files.keys() if drawn.get(name) != files.get(name)] == [], "run `make docs`"


def test_the_page_shows_each_picture_once() -> None:
    text = PAGE.read_text()
    assert [name for name, (title, _) in figures().items() if text.count(image(name, title)) != 1] == []

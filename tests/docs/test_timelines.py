"""The pictures of triggers and options show what their examples do."""

from __future__ import annotations

from tests.docs.pages import ROOT
from tests.docs.timelines import PAGE, Axis, draw, run_examples

OPTIONS = {
    "at_once", "window_close", "max_delay", "continuous_window_close", "force_window_close",
    "watermark", "ignore_expired", "ignore_update", "delete_mark", "fill", "fill_history",
}  # fmt: skip


def test_every_picture_shows_what_its_example_does() -> None:
    runs = list(run_examples())
    drawn = {picture.file: draw(picture.title, replay.timeline) for picture, replay in runs}

    for picture, replay in runs:
        assert [line.strip() for line in replay.lines] == (picture.block.expected or "").splitlines(), picture.block.location
    assert {file.stem for file in drawn} == OPTIONS
    links = {f"![{picture.title}]({picture.file.relative_to(PAGE.parent)})" for picture, _ in runs}
    assert [link for link in sorted(links) if link not in PAGE.read_text()] == []
    stale = [str(file.relative_to(ROOT)) for file, text in drawn.items() if not file.exists() or file.read_text() != text]
    assert stale == [], "run `make docs`"
    assert set(PAGE.parent.glob("triggers/*.svg")) == set(drawn)


def test_the_axis_leaves_out_stretches_in_which_nothing_happens() -> None:
    axis = Axis.over([2, 17, 617], 620)

    assert axis.spans == [(0, 20), (614, 620)]
    assert axis.x(0) < axis.x(17) < axis.breaks()[0] < axis.x(617) < axis.x(620)

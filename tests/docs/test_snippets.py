"""Every snippet of the documentation runs, and prints what the page says."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.docs.pages import GIVEN, OUTPUT, ROOT, RUN, SHOWN, Block, blocks, pages
from tests.docs.player import Player

MOST_NOT_RUN: Final = 3
PLAYED: Final = RUN | GIVEN


def played(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language in PLAYED and block.not_run is None]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("page", [page for page in pages() if played(page)], ids=lambda page: str(page.relative_to(ROOT)))
def test_the_snippets_of_a_page_do_what_it_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    player = Player(tmp_path, monkeypatch)
    try:
        for block in played(page):
            try:
                player.play(block)
            except Exception as error:
                raise AssertionError(f"{block.place}: {error}") from error
    finally:
        player.close()


def test_every_block_is_of_a_kind_that_the_tests_know() -> None:
    known = RUN | GIVEN | OUTPUT | SHOWN
    assert [block.place for page in pages() for block in blocks(page) if block.language not in known] == []


def test_few_blocks_are_not_run() -> None:
    skipped = [block.place for page in pages() for block in blocks(page) if block.not_run is not None]
    assert len(skipped) <= MOST_NOT_RUN, skipped

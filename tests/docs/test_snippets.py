"""Every snippet of the documentation runs and prints what the page shows."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.docs.pages import (
    ELSEWHERE,
    FILES,
    OUTPUT,
    ROOT,
    RUNNABLE,
    STATIC,
    Block,
    markdown_pages,
    parse_blocks,
)
from tests.docs.snippet_runner import SnippetRunner

MAX_SKIPPED_BLOCKS: Final = 6


def runnable_blocks(page: Path) -> list[Block]:
    return [block for block in parse_blocks(page) if block.language in RUNNABLE | FILES and block.skip_reason is None]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "page", [page for page in markdown_pages() if runnable_blocks(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_snippets_print_what_the_page_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = SnippetRunner(tmp_path, monkeypatch)
    try:
        for block in runnable_blocks(page):
            try:
                runner.run(block)
            except Exception as error:
                raise AssertionError(f"{block.location}: {error}") from error
    finally:
        runner.close()


def test_every_block_has_a_language_that_the_tests_handle() -> None:
    languages = RUNNABLE | FILES | OUTPUT | STATIC
    assert [block.location for page in markdown_pages() for block in parse_blocks(page) if block.language not in languages] == []


def test_few_blocks_are_skipped() -> None:
    never_run = (
        block
        for page in markdown_pages()
        for block in parse_blocks(page)
        if block.skip_reason is not None and block.skip_reason not in ELSEWHERE
    )
    skipped = [block.location for block in never_run]
    assert len(skipped) <= MAX_SKIPPED_BLOCKS, skipped

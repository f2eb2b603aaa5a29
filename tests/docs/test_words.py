"""The checks of words in `pyproject.toml`: codespell knows our dictionary, and finds its phrases too."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DICTIONARY = ROOT / "docs/.codespell"
MAX_WORDS = 90_000
"""Of all pages, code included: what is new says in few words what readers need, or something else goes."""


def phrases() -> list[str]:
    return [line.partition("->")[0] for line in DICTIONARY.read_text().splitlines()]


def reported(path: Path) -> list[str]:
    """Run codespell with the project's configuration; return the words it reports, in order."""
    command = [str(Path(sys.executable).with_name("codespell")), str(path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not run.stderr
    return [line.removeprefix(f"{path}:").partition(": ")[2].partition(" ==> ")[0] for line in run.stdout.splitlines()]


def test_every_phrase_of_the_dictionary_is_reported(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("".join(f"Here it {phrase}, again.\n" for phrase in phrases()))
    assert reported(page) == phrases()


def test_british_spelling_and_typing_errors_are_reported(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("The behaviour of teh stream.\n")
    assert reported(page) == ["behaviour", "teh"]


def test_the_dictionary_is_sorted() -> None:
    assert phrases() == sorted(set(phrases()))


def test_the_pages_are_not_longer_than_readers_need() -> None:
    words = {page: len(page.read_text().split()) for page in (ROOT / "docs").rglob("*.md")}
    assert sum(words.values()) <= MAX_WORDS, sorted(words.items(), key=lambda item: -item[1])[:10]

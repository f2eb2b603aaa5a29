"""The hand-written pages name everything that there is, and nothing else; links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from headrace.cli.main import app
from headrace.runtime.metrics import Histogram, Reading, render
from headrace.service.planning.shows import READERS
from headrace.sql.tdengine.parser import Parser
from headrace.sql.tdengine.streams import TDengineStreams
from tests.docs.pages import ROOT, pages

REFERENCE: Final = ROOT / "docs" / "reference"
LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING: Final = re.compile(r"^#+ (.*)$", re.MULTILINE)


def headings(page: Path) -> list[str]:
    return HEADING.findall(re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL))


def anchor(heading: str) -> str:
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_pages_and_headings_that_exist(page: Path) -> None:
    broken = []
    for link in LINK.findall(page.read_text()):
        name, _, place = link.partition("#")
        if name.startswith(("http:", "https:")):
            continue
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (place and place not in map(anchor, headings(target))):
            broken.append(link)
    assert broken == []


def test_every_statement_has_a_section() -> None:
    first = {"INSERT", *Parser.STATEMENTS} - {"CREATE", "DROP", "ALTER", "PAUSE", "RESUME", "DESC"}
    wanted = first | {f"CREATE {what}" for what in Parser.CREATES} | {f"DROP {what}" for what in Parser.DROPS}
    wanted |= {"ALTER TABLE", "PAUSE STREAM", "RESUME STREAM"}
    sections = {name for heading in headings(REFERENCE / "statements.md") for name in heading.split(", ")}
    assert wanted - sections == set()


def test_every_option_of_a_stream_and_every_list_is_described() -> None:
    text = (REFERENCE / "statements.md").read_text()
    assert [option for option in TDengineStreams.OPTIONS if f"| `{option} " not in text] == []
    lists = [what.upper() for what in READERS if not what.startswith("create")]
    grammar = text.partition("## SHOW")[2].partition("```sql")[0]
    assert [what for what in lists if what not in grammar] == []


def test_every_command_and_option_is_described() -> None:
    text = (REFERENCE / "cli.md").read_text()
    commands: dict[str, Any] = vars(typer.main.get_command(app))["commands"]
    sections = {name for heading in headings(REFERENCE / "cli.md") for name in heading.split(", ")}
    assert set(commands) - sections == set()
    options = {option for command in commands.values() for one in command.params for option in one.opts if option.startswith("--")}
    assert [option for option in sorted(options) if option not in text] == []


def test_every_metric_is_described() -> None:
    page = render(Reading("default", 1, [], Histogram(), 0, 0.0, 0))
    there = set(re.findall(r"^# TYPE (\w+)", page, re.MULTILINE))
    assert set(re.findall(r"^\| `(headrace_\w+)` \|", (REFERENCE / "http.md").read_text(), re.MULTILINE)) == there

"""The hand-written pages describe every statement, option, command and metric; links point to existing headings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from headrace.cli.app import app
from headrace.runtime.metrics import Histogram, SnodeMetrics, render_metrics
from headrace.service.topics.shows import READERS
from headrace.sql.tdengine.parser import Parser
from headrace.sql.tdengine.streams import TDengineStreams
from tests.docs.pages import ROOT, markdown_pages

REFERENCE: Final = ROOT / "docs" / "reference"
LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING: Final = re.compile(r"^#+ (.*)$", re.MULTILINE)


def headings(page: Path) -> list[str]:
    return HEADING.findall(re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL))


def anchor(heading: str) -> str:
    """Return the anchor of a heading, as GitHub generates it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", markdown_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_point_to_existing_pages_and_headings(page: Path) -> None:
    broken = []
    for link in LINK.findall(page.read_text()):
        name, _, fragment = link.partition("#")
        if name.startswith(("http:", "https:")):
            continue
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (fragment and fragment not in map(anchor, headings(target))):
            broken.append(link)
    assert broken == []


def test_every_statement_has_a_section() -> None:
    altering = {"ALTER", "COMPACT", "FLUSH", "KILL", "PAUSE", "REPLAY", "RESET", "RESUME"}
    statements = {"INSERT", *Parser.STATEMENTS} - {"CREATE", "DROP", "DESC", *altering}
    statements |= {f"CREATE {kind}" for kind in Parser.CREATES.keys() - {"AGGREGATE"}} | {f"DROP {kind}" for kind in Parser.DROPS}
    statements |= {
        "ALTER DATABASE",
        "COMPACT DATABASE",
        "FLUSH DATABASE",
        "KILL QUERY",
        "KILL CONNECTION",
        "ALTER TABLE",
        "ALTER STREAM",
        "PAUSE STREAM",
        "RESET STREAM",
        "RESUME STREAM",
        "REPLAY QUARANTINE",
        "CREATE OR REPLACE STREAM",
    }
    sections = {name for heading in headings(REFERENCE / "statements.md") for name in heading.split(", ")}
    assert statements - sections == set()


def test_every_stream_option_and_every_show_statement_is_described() -> None:
    text = (REFERENCE / "statements.md").read_text()
    assert [option for option in TDengineStreams.OPTIONS if f"| `{option} " not in text] == []
    shows = [name.upper() for name in READERS if not name.startswith("create")]
    grammar = text.partition("\n## SHOW\n")[2].partition("```sql")[0]
    assert [name for name in shows if name not in grammar] == []


def test_every_command_and_option_is_described() -> None:
    text = (REFERENCE / "cli.md").read_text()
    commands: dict[str, Any] = vars(typer.main.get_command(app))["commands"]
    sections = {name for heading in headings(REFERENCE / "cli.md") for name in heading.split(", ")}
    assert set(commands) - sections == set()
    parameters = [parameter for command in commands.values() for parameter in command.params]
    options = {option for parameter in parameters for option in parameter.opts if option.startswith("--")}
    assert [option for option in sorted(options) if option not in text] == []


def test_every_metric_is_described() -> None:
    page = render_metrics(SnodeMetrics("default", 1, [], Histogram(), 0, 0.0, 0))
    metrics = set(re.findall(r"^# TYPE (\w+)", page, re.MULTILINE))
    assert set(re.findall(r"^\| `(headrace_\w+)` \|", (REFERENCE / "http.md").read_text(), re.MULTILINE)) == metrics

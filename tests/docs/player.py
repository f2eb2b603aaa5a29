"""Plays the snippets of one page in order, in one home."""

from __future__ import annotations

import contextlib
import io
import json
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import typer
from typer.testing import CliRunner

import headrace
from headrace.cli import console, main
from headrace.model.statements import Select, Show
from headrace.runtime.http import Endpoint, Guard, Health, create_app
from headrace.service.endpoint import sql_runner
from headrace.settings import Settings
from headrace.sql import parse_script
from tests.docs.pages import GIVEN, ROOT, Block

NOON: Final = 1_714_564_800_000
"""What `now` is in all snippets: 2024-05-01 12:00:00 UTC."""
WIDTH: Final = 132
TOKEN: Final = "token"
RUN_COMMANDS: Final = frozenset({"sql", "explain", "load", "backfill", "config", "settle", "docs", "verify"})
"""The others start or stop processes: of them only the arguments are checked."""
DIFFERING: Final = frozenset({"verify"})
"""End with another code where there is a difference to show."""
ERROR: Final = "error ["
TARGET: Final = re.compile(r"^([a-z]+):", re.MULTILINE)


class Player:
    """One page's home, and the connection that stays open from one block of SQL to the next."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.clock = headrace.ManualClock(NOON)
        self.home = folder / "home"
        self._connection: headrace.Connection | None = None
        self._database: str | None = None
        self._names: dict[str, Any] = {"__name__": "snippet"}
        patch.chdir(folder)
        patch.setenv("HEADRACE_HOME", str(self.home))
        patch.setattr("headrace.service.connection.SystemClock", lambda: self.clock)
        patch.setattr(console.out, "width", WIDTH)

    def play(self, block: Block) -> None:
        """Run a block, and compare what it prints with what the page says."""
        if block.language in GIVEN:
            Path(block.name).write_text(block.text + "\n")
            return
        printed = {"sql": self.sql, "sh": self.sh, "python": self.python, "http": self.http}[block.language](block.text)
        if block.expected is None:
            assert ERROR not in printed, printed
        elif block.language == "http":
            assert json.loads(printed) == json.loads(block.expected), f"the page says something else\n\n{printed}"
        else:
            assert lines(printed) == lines(block.expected), f"the page says something else\n\n{printed}"

    def close(self) -> None:
        """Let go of the home: only one connection at a time may run its streams."""
        if self._connection is not None:
            self._database = self._connection.session.database
            self._connection.close()
            self._connection = None

    @property
    def connection(self) -> headrace.Connection:
        if self._connection is None:
            self._connection = headrace.connect(database=self._database)
        return self._connection

    def sql(self, text: str) -> str:
        """What the last statement with rows shows, or the error; streams are settled before each question."""
        shown = ""
        try:
            for written, statement in parse_script(text):
                if isinstance(statement, Select | Show):
                    self.connection.settle()
                result = self.connection.session.execute(written)
                if result.table is not None:
                    with console.out.capture() as captured:
                        console.show_rows(result, console.Format.TABLE)
                    shown = captured.get()
        except headrace.Error as error:
            return error_text(error)
        return shown

    def python(self, text: str) -> str:
        """What the code prints."""
        self.close()
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, "snippet", "exec"), self._names)
        return printed.getvalue()

    def sh(self, text: str) -> str:
        """What the commands print."""
        self.close()
        return "".join(self.command(words) for words in commands(text))

    def command(self, words: list[str]) -> str:
        """Run a command of ours; of others check that there is such a thing."""
        match words:
            case ["headrace", name, *_] if name in RUN_COMMANDS:
                return run(words[1:])
            case ["headrace", name, *arguments]:
                parsed(name, arguments)
            case ["make", target, *_]:
                assert target in TARGET.findall((ROOT / "Makefile").read_text()), f"make has no {target}"
            case ["python", script, *arguments]:
                runpy.run_path(str(ROOT / script))["arguments"]().parse_args(arguments)
            case ["export", setting] if setting.startswith("HEADRACE_"):
                assert setting.partition("=")[0].removeprefix("HEADRACE_").lower() in Settings.model_fields
            case [".", ".venv/bin/activate"]:
                pass
            case _:
                raise AssertionError(f"no test for the command {shlex.join(words)}")
        return ""

    def http(self, text: str) -> str:
        """The answer of an snode's endpoint over this home."""
        head, _, body = text.partition("\n\n")
        method, path = head.splitlines()[0].split()
        context = self.connection.session.context
        app = create_app(Guard(TOKEN), sql_runner(context), lambda: Health(True, {}), lambda: "")
        endpoint = Endpoint(app)
        endpoint.start()
        try:
            answer = httpx.request(
                method, endpoint.address + path, content=body, headers=dict(headers(head)), trust_env=False, timeout=120
            )
        finally:
            endpoint.stop()
        return json.dumps(answer.json(), indent=1)


def headers(head: str) -> Iterator[tuple[str, str]]:
    """The header lines of a request; the page's token stands for the real one."""
    for line in head.splitlines()[1:]:
        name, _, value = line.partition(": ")
        yield name, f"Bearer {TOKEN}" if name == "Authorization" else value


def commands(text: str) -> Iterator[list[str]]:
    """The commands of a block, each split into words; quotes may hold several lines."""
    pending = ""
    for line in text.splitlines():
        pending += line + "\n"
        if line.endswith("\\"):
            continue
        try:
            words = shlex.split(pending, comments=True)
        except ValueError:
            continue
        pending = ""
        if words:
            yield words
    assert not pending.strip(), f"unfinished command: {pending}"


def run(arguments: list[str]) -> str:
    """What a command prints, errors too."""
    result = CliRunner().invoke(main.app, arguments)
    if isinstance(result.exception, headrace.Error):
        return result.output + error_text(result.exception)
    assert result.exit_code == 0 or arguments[0] in DIFFERING, result.output + str(result.exception)
    return result.output


def parsed(name: str, arguments: list[str]) -> None:
    """Refuse a command, option or argument that does not exist."""
    known: dict[str, Any] = vars(typer.main.get_command(main.app))["commands"]
    assert name in known, f"headrace has no command {name}"
    known[name].make_context(name, list(arguments))


def error_text(error: headrace.Error) -> str:
    with console.err.capture() as captured:
        console.show_error(error)
    return captured.get()


def lines(text: str) -> list[str]:
    """Lines without what only lays them out."""
    plain = (re.sub(r"\s+", " ", line).strip() for line in text.splitlines())
    return [line for line in plain if line]

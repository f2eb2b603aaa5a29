"""Runs the snippets of one page in order, in one home."""

from __future__ import annotations

import contextlib
import io
import json
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest
import typer
from typer.testing import CliRunner

import headrace
from headrace.cli import output as printing
from headrace.cli.app import app
from headrace.runtime.http import Guard, Health, create_app
from headrace.runtime.http_server import Endpoint
from headrace.runtime.openlineage.configuration import NAMESPACE, is_configured
from headrace.service.endpoint import sql_runner
from headrace.settings import Settings, load
from headrace.sql import parse_script
from tests.docs.pages import ROOT, Block

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

NOW_MS: Final = 1_714_564_800_000
"""The value of `now` in all snippets: 2024-05-01 12:00:00 UTC."""
CONSOLE_WIDTH: Final = 132
TOKEN: Final = "token"
EXECUTED_COMMANDS: Final = frozenset(
    {
        "apply",
        "backfill",
        "backup",
        "config",
        "docs",
        "explain",
        "load",
        "monitoring",
        "new",
        "plan",
        "repair",
        "restore",
        "settle",
        "size",
        "sql",
        "verify",
    }
)
"""Other commands start or stop processes, so only their arguments are checked."""
MAY_FAIL_COMMANDS: Final = frozenset({"verify"})
"""Commands with a non-zero exit code if they report a difference."""
WAITING_COMMANDS: Final = frozenset({"settle"})
"""Commands whose standard error is progress, of which a terminal shows nothing once they have ended."""
ERROR_PREFIX: Final = "error ["
CELL_NUMBER: Final = re.compile(r"^Out\[\d+\]: ?\n?", re.MULTILINE)
MAKE_TARGET: Final = re.compile(r"^([a-z]+):", re.MULTILINE)


class SnippetRunner:
    """The home of a page, and a connection that stays open between its SQL snippets."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.clock = headrace.ManualClock(NOW_MS)
        self.home, self._patch = folder / "home", patch
        self._connection: headrace.Connection | None = None
        self._trees: headrace.Connection | None = None
        self._database: str | None = None
        self._names: dict[str, Any] = {"__name__": "snippet"}
        self._shell: InteractiveShell | None = None
        patch.chdir(folder)
        patch.setenv("HEADRACE_HOME", str(self.home))
        patch.setattr("headrace.service.connecting.SystemClock", lambda: self.clock)
        patch.setattr(printing, "output_width", lambda: CONSOLE_WIDTH)

    def run(self, block: Block) -> None:
        """Run a block and compare its output with the expected output."""
        if block.is_file:
            Path(block.name).parent.mkdir(parents=True, exist_ok=True)
            Path(block.name).write_text(block.text + "\n")
            return
        run_language = {"sql": self._run_sql, "sh": self._run_sh, "python": self._run_python, "http": self._run_http}
        run_language["ipython"] = self._run_cell
        if block.name == "iotdb":
            run_language["sql"] = self._run_tree_sql
        output = run_language[block.language](block.text)
        if block.expected is None:
            assert ERROR_PREFIX not in output, output
            assert block.language == "sh" or not output.strip(), f"the page does not show the output\n\n{output}"
        elif block.language == "http":
            assert json.loads(output) == json.loads(block.expected), f"the output differs from the page\n\n{output}"
        else:
            assert normalized_lines(output) == normalized_lines(block.expected), f"the output differs from the page\n\n{output}"

    def close(self) -> None:
        """Close the connections: only one at a time may run the streams of a home."""
        if self._trees is not None:
            self._trees.close()
            self._trees = None
        if self._connection is not None:
            self._database = self._connection.session.database
            self._connection.close()
            self._connection = None

    @property
    def connection(self) -> headrace.Connection:
        """The open connection, opened on first use."""
        if self._connection is None:
            self._connection = headrace.connect(database=self._database)
        return self._connection

    def _run_sql(self, text: str) -> str:
        """Return the rows of all statements, and the error if one fails."""
        return self._run_statements(text, self.connection)

    def _run_tree_sql(self, text: str) -> str:
        """Do the same with the IoTDB dialect."""
        if self._trees is None:
            self._trees = headrace.connect(dialect="iotdb")
        return self._run_statements(text, self._trees)

    def _run_statements(self, text: str, connection: headrace.Connection) -> str:
        output = ""
        try:
            for sql, _ in parse_script(text, connection.session.dialect):
                result = connection.session.execute(sql)
                if result.table is not None:
                    lines = printing.format_table(result.names, list(result.tuples()), CONSOLE_WIDTH)
                    output += "".join(f"{line}\n" for line in lines)
        except headrace.Error as error:
            return output + printing.format_error(error)
        return output

    def _run_python(self, text: str) -> str:
        """Return what the code prints."""
        self.close()
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, "snippet", "exec", dont_inherit=True), self._names)
        return printed.getvalue()

    def _run_cell(self, text: str) -> str:
        """Return what a notebook shows below a cell."""
        from IPython.core.interactiveshell import InteractiveShell

        self.close()
        self._shell = self._shell or InteractiveShell()
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            self._shell.run_cell(text)
        return CELL_NUMBER.sub("", printed.getvalue())

    def _run_sh(self, text: str) -> str:
        """Return what the commands print."""
        self.close()
        return "".join(self._run_command(words) for words in split_commands(text))

    def _run_command(self, words: list[str]) -> str:
        """Run one of our commands and return its output; only check that any other command is valid."""
        match words:
            case ["headrace", name, *_] if name in EXECUTED_COMMANDS:
                return run_headrace(words[1:])
            case ["headrace", name, *arguments]:
                check_arguments(name, arguments)
            case ["make", target, *_]:
                assert target in MAKE_TARGET.findall((ROOT / "Makefile").read_text()), f"make has no target {target}"
            case ["python", script, *arguments]:
                runpy.run_path(str(ROOT / script))["build_parser"]().parse_args(arguments)
            case ["export", setting] if setting.startswith("HEADRACE_CODE_NETWORK="):
                self._patch.setenv(*setting.split("="))
            case ["export", setting] if setting.startswith("HEADRACE_"):
                assert setting.partition("=")[0].removeprefix("HEADRACE_").lower() in Settings.fields
            case ["export", variable] if variable.startswith("OPENLINEAGE_"):
                name, _, value = variable.partition("=")
                assert name == NAMESPACE or is_configured(load(), {name: value}), f"{name} configures nothing"
            case [".", ".venv/bin/activate"]:
                pass
            case _:
                raise AssertionError(f"no test for the command {shlex.join(words)}")
        return ""

    def _run_http(self, text: str) -> str:
        """Return the response of an snode's endpoint that serves this home."""
        head, _, body = text.partition("\n\n")
        method, path = head.splitlines()[0].split()
        context = self.connection.session.context
        runner = sql_runner(context)
        app = create_app(Guard(TOKEN), runner, lambda: Health(True, {}), lambda: "", cancel=runner.cancel, vouch=runner.vouch)
        endpoint = Endpoint(app)
        endpoint.start()
        try:
            response = httpx.request(
                method, endpoint.address + path, content=body, headers=dict(parse_headers(head)), trust_env=False, timeout=120
            )
        finally:
            endpoint.stop()
        return json.dumps(response.json(), indent=1)


def parse_headers(head: str) -> Iterator[tuple[str, str]]:
    """Yield the header lines of a request, with the real token in place of the page's."""
    for line in head.splitlines()[1:]:
        name, _, value = line.partition(": ")
        yield name, f"Bearer {TOKEN}" if name == "Authorization" else value


def split_commands(text: str) -> Iterator[list[str]]:
    """Yield the commands of a block, each split into words. A quoted argument can have several lines."""
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


def run_headrace(arguments: list[str]) -> str:
    """Run a `headrace` command and return its output, including errors."""
    result = CliRunner().invoke(app, arguments)
    if isinstance(result.exception, headrace.Error):
        return result.output + printing.format_error(result.exception)
    assert result.exit_code == 0 or arguments[0] in MAY_FAIL_COMMANDS, result.output + str(result.exception)
    return result.stdout if arguments[0] in WAITING_COMMANDS else result.output


def check_arguments(name: str, arguments: list[str]) -> None:
    """Fail if the command, an option or an argument does not exist."""
    commands: dict[str, Any] = vars(typer.main.get_command(app))["commands"]
    assert name in commands, f"headrace has no command {name}"
    commands[name].make_context(name, list(arguments))


def normalized_lines(text: str) -> list[str]:
    """Return the lines that are not blank, with runs of spaces collapsed."""
    collapsed = (re.sub(r"\s+", " ", line).strip() for line in text.splitlines())
    return [line for line in collapsed if line]

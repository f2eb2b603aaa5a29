"""The interactive shell of `headrace sql`; all its statements use one Spark application."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prompt_toolkit import PromptSession
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from rich.status import Status

from headrace.cli.completion import SqlCompleter
from headrace.cli.console import err, out
from headrace.cli.output import Format, show_error
from headrace.cli.script import confirm, show_result
from headrace.cli.shell_dialects import COMMON_HELP, DIALECTS
from headrace.errors import Error
from headrace.model.masking import masked
from headrace.sql import lexical_rules_of
from headrace.sql.lexical_rules import LexicalRules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.service.connection import Connection

HISTORY_FILE_NAME: Final = "sql_history"


class MaskedHistory(FileHistory):
    """A history in a file, without passwords."""

    def store_string(self, string: str) -> None:
        """Add an input to the file."""
        super().store_string(masked(string))


def run_shell(connection: Connection, output_format: Format, separator: str) -> None:
    """Read statements from the terminal and run them until the user quits."""
    Shell(connection, output_format, separator).run()


@dataclass(slots=True)
class AnnouncedSpark:
    """A source of the Spark session that announces the start on first use, since it takes seconds."""

    start: Callable[[], SparkSession]
    announce: Callable[[str], None]

    @property
    def started(self) -> bool:
        """Whether Spark has started; True for a source that does not say."""
        return bool(getattr(self.start, "started", True))

    def __call__(self) -> SparkSession:
        if not self.started:
            self.announce("starting Spark…")
        session = self.start()
        self.announce("running…")
        return session


class Shell:
    """An interactive session at a terminal."""

    def __init__(self, connection: Connection, output_format: Format, separator: str) -> None:
        self._session = connection.session
        self._format = output_format
        self._separator = separator
        self._dialect = DIALECTS[self._session.dialect]
        self._lexical_rules = lexical_rules_of(self._session.dialect)
        self._status: Status | None = None
        context = self._session.context
        self._session.context = replace(context, spark=AnnouncedSpark(context.spark, self._announce))
        self._prompt: PromptSession[str] = PromptSession(
            history=MaskedHistory(str(create_history_file(context.settings.home_path))),
            completer=SqlCompleter(self._session),
            complete_while_typing=False,
            multiline=True,
            editing_mode=EditingMode.EMACS,
            key_bindings=bind_enter_key(self._lexical_rules),
            prompt_continuation=lambda width, _line, _wrapped: "-> ".rjust(width),
        )

    def run(self) -> None:
        r"""Run the input until Ctrl-D or `\q`."""
        out.print(r"Headrace. \? shows help, Ctrl-D ends.", style="dim", highlight=False, markup=False)
        while True:
            try:
                text = self._prompt.prompt(f"{self._session.database or self._dialect.prompt}> ").strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if text == "\\q":
                return
            self.run_input(text)

    def run_input(self, text: str) -> None:
        """Run a command or statements; an error stops the statements, not the shell."""
        if text == "\\?":
            out.print(COMMON_HELP.format(self._dialect.help), markup=False, highlight=False)
            return
        try:
            for statement in self._lexical_rules.statements(self._dialect.expand(text)):
                confirm(self._session, statement, yes=False)
                with self._show_status():
                    result = self._session.execute(statement)
                show_result(result, self._format, self._separator)
        except Error as error:
            show_error(error)
        except KeyboardInterrupt:
            err.print("canceled", style="yellow")

    @contextmanager
    def _show_status(self) -> Iterator[None]:
        with err.status("running…") as self._status:
            try:
                yield
            finally:
                self._status = None

    def _announce(self, text: str) -> None:
        if self._status is not None:
            self._status.update(text)


def create_history_file(home: Path) -> Path:
    path = home / HISTORY_FILE_NAME
    path.touch(mode=0o600)
    return path


def is_complete(text: str, lexical_rules: LexicalRules) -> bool:
    """Return True for a command, blank input, or statements whose last token is `;`."""
    if text.lstrip().startswith("\\") or lexical_rules.is_blank(text):
        return True
    tokens = [token for token in lexical_rules.token.finditer(text) if token.lastgroup != "blank"]
    return tokens[-1][0] == ";" and all(token.lastgroup != "open" for token in tokens)


def bind_enter_key(lexical_rules: LexicalRules) -> KeyBindings:
    """Bind Enter to run complete input, and to insert a new line otherwise."""
    bindings = KeyBindings()

    @bindings.add("enter")
    def _(event: KeyPressEvent) -> Any:
        buffer = event.current_buffer
        if is_complete(buffer.text, lexical_rules):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return bindings

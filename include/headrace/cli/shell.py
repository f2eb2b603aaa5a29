"""`headrace sql` at a terminal: statements are typed, one Spark application answers all of them."""

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

from headrace.cli.completion import Completion
from headrace.cli.console import Format, err, out, show_error
from headrace.cli.script import show_result
from headrace.errors import Error
from headrace.sql import lexis_of
from headrace.sql.lexis import Lexis

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.service.connection import Connection

HISTORY: Final = "sql_history"
HELP: Final = r"""A statement ends with ; and may go over several lines. Tab completes, the up arrow brings back earlier ones.
  \d [TABLE]  list tables, or describe one
  \l          list databases
  \s          list streams
  \?          show this
  \q          end (Ctrl-D too); Ctrl-C cancels what is typed, or what runs"""
COMMANDS: Final = {"\\d": "SHOW TABLES", "\\l": "SHOW DATABASES", "\\s": "SHOW STREAMS"}


def run_shell(connection: Connection, form: Format) -> None:
    """Read statements from the terminal and run them, until the user ends it."""
    Shell(connection, form).run()


@dataclass(slots=True)
class AnnouncedSpark:
    """Starts Spark on first use, and says so, because that takes seconds."""

    start: Callable[[], SparkSession]
    announce: Callable[[str], None]

    @property
    def started(self) -> bool:
        return bool(getattr(self.start, "started", True))

    def __call__(self) -> SparkSession:
        if not self.started:
            self.announce("starting Spark…")
        session = self.start()
        self.announce("running…")
        return session


class Shell:
    """One conversation at a terminal."""

    def __init__(self, connection: Connection, form: Format) -> None:
        self._session = connection.session
        self._form = form
        self._lexis = lexis_of(self._session.dialect)
        self._status: Status | None = None
        context = self._session.context
        self._session.state.context = replace(context, spark=AnnouncedSpark(context.spark, self._announce))
        self._prompt: PromptSession[str] = PromptSession(
            history=FileHistory(str(history_file(context.settings.home_path))),
            completer=Completion(self._session),
            complete_while_typing=False,
            multiline=True,
            editing_mode=EditingMode.EMACS,
            key_bindings=enter_key(self._lexis),
            prompt_continuation=lambda width, _line, _wrapped: "-> ".rjust(width),
        )

    def run(self) -> None:
        """Answer until Ctrl-D or `\\q`."""
        out.print(r"Headrace. \? shows help, Ctrl-D ends.", style="dim", highlight=False, markup=False)
        while True:
            try:
                text = self._prompt.prompt(f"{self._session.database or 'headrace'}> ").strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if text == "\\q":
                return
            self.answer(text)

    def answer(self, text: str) -> None:
        """Run what was typed; an error ends its statements, not the shell."""
        if text == "\\?":
            out.print(HELP, markup=False, highlight=False)
            return
        try:
            for statement in self._lexis.statements(statement_of(text)):
                with self._waiting():
                    result = self._session.execute(statement)
                show_result(result, self._form)
        except Error as error:
            show_error(error)
        except KeyboardInterrupt:
            err.print("cancelled", style="yellow")

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """Show what is waited for."""
        with err.status("running…") as self._status:
            try:
                yield
            finally:
                self._status = None

    def _announce(self, text: str) -> None:
        if self._status is not None:
            self._status.update(text)


def history_file(home: Path) -> Path:
    """The file of earlier statements, which only its owner may read."""
    path = home / HISTORY
    path.touch(mode=0o600)
    return path


def statement_of(text: str) -> str:
    """The statement of a command such as `\\d`; any other text as it is."""
    command, _, argument = text.partition(" ")
    if command == "\\d" and argument.strip():
        return f"DESCRIBE {argument.strip().rstrip(';')}"
    return COMMANDS.get(command.rstrip(";"), text)


def is_complete(text: str, lexis: Lexis) -> bool:
    """Whether nothing more has to be typed: a command, nothing at all, or a `;` at the end that is not in a string."""
    if text.lstrip().startswith("\\") or lexis.is_blank(text):
        return True
    pieces = [piece for piece in lexis.token.finditer(text) if piece.lastgroup != "blank"]
    return pieces[-1][0] == ";" and all(piece.lastgroup != "open" for piece in pieces)


def enter_key(lexis: Lexis) -> KeyBindings:
    """Enter runs what is complete, and begins a new line in what is not."""
    bindings = KeyBindings()

    @bindings.add("enter")
    def _(event: KeyPressEvent) -> Any:
        buffer = event.current_buffer
        if is_complete(buffer.text, lexis):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return bindings

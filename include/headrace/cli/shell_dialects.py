r"""What the shell offers in each dialect: the prompt, commands such as `\d`, and keywords to complete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

COMMON_HELP: Final = r"""A statement ends with ; and may span lines. Tab completes, the up arrow recalls earlier statements.
{}
  \?          show this help
  \q          quit (or Ctrl-D); Ctrl-C cancels the input or the running statement"""


@dataclass(frozen=True, slots=True)
class ShellDialect:
    r"""The shell's words of a dialect: the prompt without a current database, and a statement for each command without argument.

    The statement of `\d NAME` has `{}` for the name; `help` has the lines about these commands. `keywords` are completed besides
    the reserved words.
    """

    prompt: str
    commands: Mapping[str, str]
    describe: str
    help: str
    keywords: tuple[str, ...]

    def expand(self, text: str) -> str:
        r"""Return the statement for a command such as `\d`, or the text unchanged if it is not a command."""
        command, _, argument = text.partition(" ")
        if command == "\\d" and argument.strip():
            return self.describe.format(argument.strip().rstrip(";"))
        return self.commands.get(command.rstrip(";"), text)


TDENGINE: Final = ShellDialect(
    prompt="headrace",
    commands={"\\d": "SHOW TABLES", "\\l": "SHOW DATABASES", "\\s": "SHOW STREAMS"},
    describe="DESCRIBE {}",
    help="  \\d [TABLE]  list tables, or describe one\n  \\l          list databases\n  \\s          list streams",
    keywords=(
        *("DATABASE", "DATABASES", "STABLE", "STABLES", "STREAM", "STREAMS", "TABLE", "TABLES", "TAG", "SNODES"),
        *("AT_ONCE", "WINDOW_CLOSE", "MAX_DELAY", "FILL_HISTORY", "IF", "PAUSE", "RESUME", "PRECISION", "TIMEZONE", "UNTREATED"),
    ),
)
IOTDB: Final = ShellDialect(
    prompt="iotdb",
    commands={"\\d": "SHOW DEVICES", "\\l": "SHOW DATABASES", "\\s": "SHOW TIMESERIES", "\\c": "SHOW CQS", "\\p": "SHOW PIPES"},
    describe="SHOW TIMESERIES {}.**",
    help="  \\d [PATH]   list devices, or the series below a path\n  \\l          list databases\n  \\s          list series\n"
    "  \\c          list continuous queries\n  \\p          list pipes",
    keywords=(
        *("ALIGN", "ALIGNED", "ALTER", "AND", "ASC", "ATTRIBUTES", "BETWEEN", "BY", "CASE", "CAST", "CHILD"),
        *("CONDITION", "CONTAINS"),
        *("COUNT", "CREATE", "DATABASE", "DATABASES", "DATATYPE", "DELETE", "DESC", "DEVICE", "DEVICES", "DROP", "EXPLAIN", "FILL"),
        *("FROM", "GROUP", "HAVING", "IN", "INSERT", "INTO", "IS", "LAST", "LEVEL", "LIKE", "LIMIT", "LINEAR", "NODES"),
        *("NOT", "NULL"),
        *("OFFSET", "OR", "ORDER", "PATHS", "PREVIOUS", "REGEXP", "SELECT", "SESSION", "SET", "SHOW", "SLIMIT", "SOFFSET", "TAGS"),
        *("TIMESERIES", "TTL", "UNSET", "VALUES", "VARIATION", "WHERE", "WITH"),
        *("BEGIN", "BLOCKED", "BOUNDARY", "CONTINUOUS", "CQ", "CQS", "DISCARD", "END", "EVERY", "EXECUTIONS", "PAUSE", "POLICY"),
        *("QUERIES", "QUERY", "RANGE", "RESAMPLE", "RESUME", "TIMEOUT"),
        *("EXISTS", "IF", "MODIFY", "PIPE", "PIPES", "PROCESSOR", "REPLACE", "SINK", "SOURCE", "START", "STOP", "USED"),
    ),
)
DIALECTS: Final = {"tdengine": TDENGINE, "iotdb": IOTDB}

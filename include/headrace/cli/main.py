"""The entry point of `headrace`. Statements are run without importing the other commands."""

from __future__ import annotations

import os
import sys
from typing import Final

from headrace.cli.output import buffer_output, show_error
from headrace.cli.sql import parse_command, run_sql
from headrace.errors import Error
from headrace.runtime.garbage import collect_rarely

ERROR_EXIT_CODES: Final = {"verify": 2}
"""Exit codes of an error by command, if not 1. Those of `verify` are as those of diff, which ends with 1 if files differ."""


def main() -> None:
    """Run the command line: print errors of Headrace without a traceback, and exit with a code that is not 0."""
    collect_rarely()
    buffer_output()
    os.umask(0o077)  # also for the components that it starts: tables, logs and results are the user's alone
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    try:
        command = parse_command(sys.argv[2:]) if name == "sql" else None
        if command is not None:
            run_sql(command)
            return
        from headrace.cli.app import app

        app()
    except Error as error:
        show_error(error)
        raise SystemExit(ERROR_EXIT_CODES.get(name, 1)) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()

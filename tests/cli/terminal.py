"""A command at a terminal of its own: what a person would type, and what would be seen."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

from tests.support.waiting import MAX_WAIT_S, Wait, note

ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[()][A-Z0-9]|[=>])|\r")


class Terminal:
    """A process whose input and output are a pseudo-terminal."""

    def __init__(self, arguments: list[str], home: Path) -> None:
        self._master, slave = pty.openpty()
        environment = os.environ | {"HEADRACE_HOME": str(home), "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", "COLUMNS": "100"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headrace.cli.main", *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),  # its controlling terminal: Ctrl-C is a signal
        )
        os.close(slave)
        self._seen = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def expect(self, wanted: str) -> str:
        """Wait for a text; what was shown before it and has not been asked for yet."""
        start = time.monotonic()
        while (place := self._seen.find(wanted)) < 0:
            left = MAX_WAIT_S - (time.monotonic() - start)
            ready, _, _ = select.select([self._master], [], [], max(0.0, left))
            assert ready, f"{wanted!r} did not appear in {self._seen!r}"
            assert self._read(), f"the command ended, {wanted!r} did not appear in {self._seen!r}"
        note(Wait(f"the shell to show {wanted!r}", time.monotonic() - start, MAX_WAIT_S))
        shown, self._seen = self._seen[:place], self._seen[place + len(wanted) :]
        return shown

    def ask(self, text: str, wanted: str, prompt: str = ">") -> None:
        """Type a line, and wait for what it shows and the next prompt."""
        self.type(f"{text}\r")
        self.expect(wanted)
        self.expect(prompt)

    def end(self) -> int:
        """Wait for the end of the process; its exit code."""
        while self._read():
            pass
        return self.process.wait(MAX_WAIT_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)

    def _read(self) -> bool:
        try:
            got = os.read(self._master, 65536)
        except OSError:  # Linux says so when the other end is closed
            return False
        self._seen = ESCAPES.sub("", self._seen + got.decode(errors="replace"))
        return bool(got)

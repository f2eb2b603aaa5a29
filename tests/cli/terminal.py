"""Runs a command in a pseudo-terminal, with input and output as a user would see them."""

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
            preexec_fn=lambda: os.close(
                os.open(os.ttyname(0), os.O_RDWR)
            ),  # makes it the controlling terminal, so that Ctrl-C is a signal
        )
        os.close(slave)
        self._output = ""

    def type(self, text: str) -> None:
        """Send keys to the command."""
        os.write(self._master, text.encode())

    def expect(self, expected: str) -> str:
        """Wait for a text in the output; return and consume the output before it."""
        start = time.monotonic()
        while (index := self._output.find(expected)) < 0:
            remaining = MAX_WAIT_S - (time.monotonic() - start)
            ready, _, _ = select.select([self._master], [], [], max(0.0, remaining))
            assert ready, f"{expected!r} did not appear in {self._output!r}"
            assert self._read(), f"the command ended, {expected!r} did not appear in {self._output!r}"
        note(Wait(f"the shell to show {expected!r}", time.monotonic() - start, MAX_WAIT_S))
        before, self._output = self._output[:index], self._output[index + len(expected) :]
        return before

    def run(self, line: str, expected: str, prompt: str = ">") -> None:
        """Enter a line, and wait for its output and the next prompt."""
        self.type(f"{line}\r")
        self.expect(expected)
        self.expect(prompt)

    def wait(self) -> int:
        """Wait for the end of the process, and return its exit code."""
        while self._read():
            pass
        return self.process.wait(MAX_WAIT_S)

    def close(self) -> None:
        """Kill the process if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)

    def _read(self) -> bool:
        try:
            data = os.read(self._master, 65536)
        except OSError:  # raised by Linux when the other end is closed
            return False
        self._output = ESCAPES.sub("", self._output + data.decode(errors="replace"))
        return bool(data)

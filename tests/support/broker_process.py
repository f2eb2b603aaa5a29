"""What brokers of the tests have in common: a process with its data and log in a temporary folder."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class BrokerProcess:
    """A broker, which may be ended and started again with its data."""

    folder: Path
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def launch(self, command: Sequence[str]) -> None:
        """Start the process; its output goes to the log."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)

    def log(self) -> str:
        """Return what the process has written."""
        return (self.folder / "log").read_text()

    def check_alive(self) -> None:
        """Fail if the process has ended."""
        assert self.process is not None
        assert self.process.poll() is None, self.log()

    def end(self, *, kills: bool) -> None:
        """End the process, by force or not, if it runs."""
        if self.process is not None:
            (self.process.kill if kills else self.process.terminate)()
            self.process.wait(60)
            self.process = None


@contextmanager
def broker_folder(name: str) -> Iterator[Path]:
    """Provide a folder, and delete it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=f"headrace-{name}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)

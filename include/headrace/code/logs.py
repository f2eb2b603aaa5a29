"""The logs of code hosts. What user code prints is written by the process that started the host, as text.

User code has no descriptor of the file, so it cannot make it a library or an archive that something else would load.
"""

from __future__ import annotations

import codecs
import os
from pathlib import Path
from typing import IO, Final

LOG_NOTE: Final = b"\n(further output is left out)\n"
CONTROL: Final = (*range(32), *range(127, 160))
ESCAPES: Final = {code: f"\\x{code:02x}" for code in CONTROL if chr(code) not in "\n\t"}
"""Control characters, as they are written. No binary format does without them."""


class Log:
    """The log of a host, up to a size; further output is left out. The file is created by the first output."""

    def __init__(self, path: Path | None, max_bytes: int) -> None:
        """Log to a file, or nowhere."""
        self._path, self._max_bytes, self._room = path, max_bytes, 0
        self._file: IO[bytes] | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def write(self, output: bytes) -> None:
        """Append output as printable text, as much as there is room for."""
        if self._file is None:
            self._file = open_log(self._path, self._max_bytes)
            self._room = max(self._max_bytes - os.fstat(self._file.fileno()).st_size - len(LOG_NOTE), 0)
        if not self._room:
            return
        text = self._decoder.decode(output).translate(ESCAPES).encode()
        part = text[: self._room]
        self._room -= len(part)
        try:
            self._file.write(part if self._room else part + LOG_NOTE)
        except OSError:  # such as that of a full disk
            self._room = 0

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def open_log(path: Path | None, max_bytes: int) -> IO[bytes]:
    """Open a log to append to it; begin a new one if it is half full, and keep the one before."""
    try:
        if path is not None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if path.is_file() and path.stat().st_size > max_bytes // 2:
                path.replace(path.with_suffix(".1"))
            return open(path, "ab", 0, opener=lambda name, flags: os.open(name, flags, 0o600))
    except OSError:  # as on an executor of another machine that has no such folder
        pass
    return open(os.devnull, "ab", 0)

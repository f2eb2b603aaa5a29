"""Runs targets on many inputs, and says what went wrong: an unexpected error, too much time, or too much memory."""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from typing import Final

from tests.fuzz.mutations import Mutator
from tests.fuzz.targets import Target

BATCH: Final = 500
MAX_S: Final = 0.25
MAX_S_PER_BYTE: Final = 20e-6
"""Time of a processor for an input: so much, and so much for each byte."""
MAX_MEMORY: Final = 64 << 20
MAX_MEMORY_PER_BYTE: Final = 4 << 10
"""Memory for an input, in bytes, likewise."""
CLEAR_PEAK: Final = "5"


@dataclass(frozen=True, slots=True)
class Finding:
    """An input that its target does not read as it should. Those with the same `kind` probably have the same cause."""

    target: str
    kind: str
    content: bytes
    details: str

    def __str__(self) -> str:
        return f"{self.target}: {self.kind}\n{self.content!r}\n{self.details}"


class Campaign:
    """Inputs of one target. The one that is being read is in a file, for the case that the process dies of it."""

    def __init__(self, name: str, target: Target, seed: int) -> None:
        self._name, self._target = name, target
        self._mutator = Mutator(target.seeds, seed)
        self._outcomes: set[str] = set()
        self._current = Path(gettempdir()) / f"headrace-fuzz-{name}"

    def run(self, inputs: int) -> list[Finding]:
        """Read seeds, and as many inputs; return the first finding of each kind."""
        findings = self.read_all(self._target.seeds)
        for start in range(0, inputs, BATCH):
            findings += self.read_all([self._mutator.input() for _ in range(min(BATCH, inputs - start))])
        self._current.unlink(missing_ok=True)
        return list({finding.kind: finding for finding in reversed(findings)}.values())

    def read_all(self, contents: Sequence[bytes]) -> list[Finding]:
        """Read inputs, and return findings."""
        with self._current.open("wb", buffering=0) as current:
            before = reset_peak()
            findings = []
            for content in contents:
                current.seek(0)
                current.truncate()
                current.write(content)
                findings += self.read(content)
        if peak() - before > MAX_MEMORY:
            findings += [finding for content in contents for finding in self.measure(content)]
        return findings

    def read(self, content: bytes) -> list[Finding]:
        """Read an input; return what is wrong in a list."""
        started = time.thread_time()
        try:
            self._target.read(content)
        except self._target.errors as error:
            self._note(content, error)
        except Exception as error:
            return [Finding(self._name, outcome(error), content, traceback.format_exc(limit=-6))]
        if time.thread_time() - started > limit_of(content, MAX_S, MAX_S_PER_BYTE) and self.is_slow(content):
            return [Finding(self._name, "time", content, f"{len(content)} bytes")]
        return []

    def is_slow(self, content: bytes) -> bool:
        """Return whether an input takes too long also at its second and third time."""
        return min(self._timed(content) for _ in range(2)) > limit_of(content, MAX_S, MAX_S_PER_BYTE)

    def measure(self, content: bytes) -> list[Finding]:
        """Read an input again, and return whether it takes too much memory."""
        before = reset_peak()
        self._timed(content)
        used = peak() - before
        if used <= limit_of(content, MAX_MEMORY, MAX_MEMORY_PER_BYTE):
            return []
        return [Finding(self._name, "memory", content, f"{used >> 20} MiB for {len(content)} bytes")]

    def _timed(self, content: bytes) -> float:
        started = time.thread_time()
        with suppress(Exception):  # which `read` has found
            self._target.read(content)
        return time.thread_time() - started

    def _note(self, content: bytes, error: Exception) -> None:
        """Make further inputs from one that fails in a new way."""
        found = outcome(error)
        if found not in self._outcomes:
            self._outcomes.add(found)
            self._mutator.keep(content)


def outcome(error: BaseException) -> str:
    """Return what an error is, and where it was raised."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    place = "" if last is None else f"{Path(last.tb_frame.f_code.co_filename).name}:{last.tb_lineno}"
    return f"{type(error).__name__} at {place}: {re.sub(r'[^a-zA-Z ]+', '', str(error))[:60]}"


def limit_of(content: bytes, fixed: float, per_byte: float) -> float:
    return fixed + per_byte * len(content)


def reset_peak() -> int:
    """Forget the peak of this process' memory, and return what it has now, in bytes."""
    Path("/proc/self/clear_refs").write_text(CLEAR_PEAK)
    return peak()


def peak() -> int:
    """Return the peak of this process' memory, in bytes."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) << 10

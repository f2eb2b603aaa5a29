"""A folder of which only what was synced is sure to survive a power failure."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("record.c")
IMMUTABLE: Final = (".parquet", ".json", ".state")
KINDS: Final = ("files", "folders", "pins")


@cache
def build(folder: Path) -> Path | None:
    """Compile the library that records what is synced; None if there is no C compiler."""
    compiler = next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), None)
    if compiler is None:
        return None
    library = folder / "record.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(SOURCE), "-ldl"], check=True)
    return library


@dataclass(frozen=True, slots=True)
class Name:
    """What a folder's entry names: an inode."""

    inode: int
    is_folder: bool


@dataclass(frozen=True)
class Disk:
    """A folder, and the records of what is durable in it."""

    root: Path
    record: Path

    def begin(self) -> None:
        """Take all that is there as durable."""
        shutil.rmtree(self.record, ignore_errors=True)
        for kind in KINDS:
            (self.record / kind).mkdir(parents=True)
        self.root.mkdir(exist_ok=True)
        for folder, path in [(self.root.stat().st_ino, self.root), *((name.inode, path) for path, name in walk(self.root))]:
            if path.is_dir():
                lines = [f"{name.inode} {'d' if name.is_folder else 'f'} {text}\n" for text, name in names_in(path).items()]
                (self.record / "folders" / str(folder)).write_text("".join(lines))
            else:
                os.link(path, self.record / "pins" / str(folder))
                (os.link if path.suffix in IMMUTABLE else shutil.copyfile)(path, self.record / "files" / str(folder))

    def variables(self, step: int | None = None) -> dict[str, str]:
        """Return the environment in which a process records what it syncs, and dies at a step."""
        watched = {"POWERCUT_ROOT": str(self.root), "POWERCUT_RECORD": str(self.record)}
        return watched if step is None else {**watched, "POWERCUT_STEP": str(step)}

    def cut(self, draw: random.Random) -> int:
        """Leave what is durable, and by chance what is not yet; return how many files and names were lost or cut."""
        paths = {name.inode: path for path, name in walk(self.root)}
        after = self.root.with_name(f"{self.root.name}.after")
        lost = self._restore(self.root.stat().st_ino, self.root, after, paths, draw)
        shutil.rmtree(self.root)
        after.rename(self.root)
        return lost

    def _restore(self, inode: int, now: Path | None, after: Path, paths: dict[int, Path], draw: random.Random) -> int:
        after.mkdir()
        durable, present = self._names(inode), {} if now is None else names_in(now)
        lost = 0
        for text in sorted({*durable, *present}):
            chosen = draw.choice((durable.get(text), present.get(text)))
            lost += chosen != present.get(text)
            if chosen is not None and chosen.is_folder:
                lost += self._restore(chosen.inode, paths.get(chosen.inode), after / text, paths, draw)
            elif chosen is not None:
                lost += self._restore_file(chosen.inode, after / text, paths, draw)
        return lost

    def _restore_file(self, inode: int, after: Path, paths: dict[int, Path], draw: random.Random) -> int:
        pin = self.record / "pins" / str(inode)
        path = pin if pin.exists() else paths.get(inode)
        present = b"" if path is None else path.read_bytes()
        durable = self.record / "files" / str(inode)
        # What was never synced may be empty, or cut, or have zeros at its end.
        length = draw.randrange(len(present) + 1)
        unsynced = (b"", present[:length], present[:length].ljust(len(present), b"\0"))
        chosen = draw.choice((durable.read_bytes() if durable.exists() else draw.choice(unsynced), present))
        after.write_bytes(chosen)
        return chosen != present

    def _names(self, inode: int) -> dict[str, Name]:
        path = self.record / "folders" / str(inode)
        lines = path.read_text().splitlines() if path.exists() else []
        fields = (line.split(" ", 2) for line in lines)
        return {text: Name(int(number), kind == "d") for number, kind, text in fields}


def names_in(folder: Path) -> dict[str, Name]:
    with os.scandir(folder) as entries:
        return {entry.name: Name(entry.inode(), entry.is_dir(follow_symlinks=False)) for entry in entries}


def walk(folder: Path) -> Iterator[tuple[Path, Name]]:
    """Yield all files and folders below a folder."""
    for text, name in names_in(folder).items():
        yield folder / text, name
        if name.is_folder:
            yield from walk(folder / text)

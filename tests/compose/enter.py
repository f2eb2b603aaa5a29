"""Runs a command in a service: `unshare --mount --uts python -m tests.compose.enter SPECIFICATION COMMAND…`.

Builds the service's root directory, changes to it and to the user, and reaps processes as the init process of a container does.
"""

from __future__ import annotations

import ctypes
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

PR_SET_CHILD_SUBREAPER: Final = 36
OWN: Final = frozenset({"etc", "srv", "opt", "root", "home", "tmp", "mnt", "media", "run", "data"})
"""Folders of this machine that services do not see."""


@dataclass(frozen=True)
class Specification:
    """Where the parts of a service are on this machine."""

    host: str
    folder: str
    """A folder of the service's own."""
    user: str
    work_folder: str
    environment: dict[str, str]
    is_unprivileged: bool
    binds: dict[str, str] = field(default_factory=dict)
    """Paths of this machine by those in the service."""
    read_only: list[str] = field(default_factory=list)
    """Paths that the service has, too, and may not change."""
    is_read_only: bool = False
    """Whether all but what is bound may not be changed."""


def main(path: str, command: list[str]) -> int:
    """Run a command in a service and return its exit code."""
    specification = Specification(**json.loads(Path(path).read_text()))
    socket.sethostname(specification.host)
    os.chroot(build_root(specification))
    identity = pwd.getpwnam(specification.user)
    os.chdir(specification.work_folder)
    privileges = ["--bounding-set=-all", "--no-new-privs"] if specification.is_unprivileged else []
    drop = ["setpriv", f"--reuid={identity.pw_uid}", f"--regid={identity.pw_gid}", "--clear-groups", *privileges, "--"]
    return run([*drop, *command], {"HOME": "/tmp", "LANG": "C.UTF-8", **specification.environment})


def build_root(specification: Specification) -> Path:
    """Build a root directory from that of this machine and the service's own files, and return it."""
    root, own = Path(specification.folder) / "root", Path(specification.folder)
    root.mkdir(exist_ok=True)
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", root)
    for entry in Path("/").iterdir():
        if entry.is_symlink():
            (root / entry.name).symlink_to(os.readlink(entry))
        elif entry.is_dir() and entry.name not in OWN:
            bind(entry, root / entry.name)
    for name in ("etc", "tmp"):
        bind(own / name, root / name)
    for path in specification.read_only:
        bind(Path(path), root / path.lstrip("/"), (own / "etc", own / "tmp"))
        mount("-o", "remount,bind,ro", root / path.lstrip("/"))
    for inside, outside in specification.binds.items():
        bind(Path(outside), root / inside.lstrip("/"), (own / "etc", own / "tmp"))
    if specification.is_read_only:
        mount("-o", "remount,bind,ro", root)
        mount("-o", "remount,bind,ro", root / "etc")
    return root


def bind(outside: Path, inside: Path, writable: tuple[Path, ...] = ()) -> None:
    """Show a file or folder at another place; parents that are missing are created in `writable` folders, or else in memory."""
    if not inside.exists():
        existing = next(parent for parent in inside.parents if parent.exists())
        is_own = existing.stat().st_ino in {path.stat().st_ino for path in writable}
        if existing.stat().st_dev == Path("/usr").stat().st_dev and not is_own:
            mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", existing)
        inside.parent.mkdir(parents=True, exist_ok=True)
        if outside.is_dir():
            inside.mkdir()
        else:
            inside.touch()
    mount("--rbind", outside, inside)


def mount(*arguments: object) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True)


def run(command: list[str], environment: dict[str, str]) -> int:
    """Run a command and reap all that it leaves; return its exit code."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    program = shutil.which(command[0], path=environment["PATH"]) or command[0]
    child = os.posix_spawn(program, command, environment, setsigmask=())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: os.kill(child, received))
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))

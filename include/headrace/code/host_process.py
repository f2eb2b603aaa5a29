"""A code host, seen from the process that uses it: started, asked, and killed when it does not answer."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, TypeVar

from headrace.code import failures
from headrace.code.attendants import Attendant
from headrace.code.failures import Call
from headrace.code.host_main import CHANNEL_EXIT, IDLE_EXIT
from headrace.code.logs import Log
from headrace.code.protocol import (
    Channel,
    ChannelClosedError,
    ChannelError,
    ChannelTimeoutError,
    GarbageError,
    Header,
    Message,
    Rows,
)
from headrace.code.sandbox import Confinement
from headrace.errors import Error, FunctionError, InvalidCodeError, OperationalError, TypeMismatchError, UserCodeError

if TYPE_CHECKING:
    from headrace.settings import Settings

T = TypeVar("T")

START: Final = "import json, sys; sys.path += json.loads(sys.argv[1]); from headrace.code.host_main import main; main(sys.argv[2])"
PACKAGE_FOLDERS: Final = frozenset({"site-packages", "dist-packages"})
ENVIRONMENT: Final = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    # One thread each: a host is one of several on the machine, and each thread takes from its address space.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    # Keep the memory of a request for the next one: getting it from the system costs more than to fill it.
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),  # the most that the C library accepts
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    # Other allocators of Arrow reserve far more address space than they use.
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
KILL_WAIT_S: Final = 10.0
MAX_START_S: Final = 60.0
UNIT_BITS: Final = {"k": 10, "m": 20, "g": 30, "t": 40}


@dataclass(frozen=True, slots=True)
class HostLimits:
    """What a code host may use.

    Args:
        memory_bytes: memory beside that of Python and its libraries.
        timeout_s: seconds until a request is ended; large tables are divided among several requests.
        log_bytes: size of the log, and of any other file that user code writes.
        network: whether user code may open connections; see `may_connect`.
        folders: folders that user code may read and write, separated by colons; others are closed to it.
        log_folder: folder of the logs; empty for none.
        idle_s: seconds after which a host that is not used ends.
    """

    memory_bytes: int = 1 << 30
    timeout_s: float = 60.0
    log_bytes: int = 10 << 20
    network: bool = False
    folders: str = ""
    log_folder: str = ""
    idle_s: float = 300.0

    @staticmethod
    def of(settings: Settings, owner: str, name: str) -> HostLimits:
        """Return the limits that the settings have for what a user has registered by a name."""
        return HostLimits(
            memory_bytes=int(settings.code_memory[:-1]) << UNIT_BITS[settings.code_memory[-1].lower()],
            timeout_s=settings.code_timeout_s,
            log_bytes=settings.code_log_bytes,
            network=may_connect(settings, owner, name),
            folders=settings.code_folders,
            log_folder=str(settings.code_log_folder),
            idle_s=settings.code_idle_s,
        )


def may_connect(settings: Settings, owner: str, name: str) -> bool:
    """Return whether the settings grant the network to what a user has registered by a name, in any case."""
    patterns = (pattern.strip().casefold().partition("/") for pattern in settings.code_network.split(",") if pattern)
    return any(
        fnmatchcase(owner.casefold(), owners) and fnmatchcase(name.casefold(), names or "*") for owners, _, names in patterns
    )


# The system kills a host when the thread that has started it ends, so one thread that lives as long as the process starts all.
_starters: dict[int, ThreadPoolExecutor] = {}


@dataclass(slots=True)
class CodeHost:
    """A child process that runs the code of one artifact. One thread at a time asks it."""

    path: str
    log_name: str
    limits: HostLimits
    lock: threading.Lock = field(default_factory=threading.Lock)
    _process: subprocess.Popen[bytes] | None = None
    _channel: Channel | None = None
    _attendant: Attendant | None = None
    _requests: int = 0
    _missing_guards: tuple[str, ...] = ()

    @property
    def pid(self) -> int | None:
        """The process, or None if there is none at the moment."""
        return None if self._process is None else self._process.pid

    def ask(self, call: Call, request: Header, read: Callable[[Message], T], table: Rows | None = None) -> T:
        """Return what `read` makes of the answer to a request. It raises `GarbageError` for an answer that it cannot read.

        Raises:
            FunctionError: A function failed on the rows of the request.
            UserCodeError: The code failed otherwise, took too long, or ended its process. The next request starts a new one, if
                need be.
            InvalidCodeError: The file has no such class.
            TypeMismatchError: The code does not accept the parameters of the call.
        """
        with self.lock:
            try:
                answer = self._exchange(request, table)
                if self._attendant is not None:
                    self._attendant.drain()
                return read(self._checked(call, answer))
            except (FunctionError, UserCodeError, InvalidCodeError, TypeMismatchError):
                raise
            except ChannelClosedError:
                raise self._end_of_process(call) from None
            except ChannelTimeoutError:
                self._kill()
                raise failures.timeout_error(call, self.limits.timeout_s) from None
            except GarbageError as error:
                self._kill()
                raise failures.garbage_error(call, error) from None
            except BaseException:  # such as KeyboardInterrupt: the answer will come, and must not be taken for the next one
                self._kill()
                raise

    def missing_guards(self) -> tuple[str, ...]:
        """Return the guards that the system lacks, by their names in `sandbox.WITHOUT`."""
        with self.lock:
            self._started()
            return self._missing_guards

    def close(self) -> None:
        """End the process. A call that another thread has begun fails."""
        process = self._process
        if process is not None:
            kill_group(process)
        with self.lock:  # the other thread still uses the pipes
            self._kill()

    def _kill(self) -> None:
        process, self._process = self._process, None
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if process is not None:
            kill_group(process)
            process.wait(KILL_WAIT_S)
        if self._attendant is not None:
            self._attendant.finish()
            self._attendant = None

    def abandon(self) -> None:
        """Close the pipes in a process that was forked from the one that has started the host."""
        self._process = None
        if self._channel is not None:
            self._channel.close()
        if self._attendant is not None:
            self._attendant.abandon()

    def _exchange(self, request: Header, table: Rows | None) -> Message:
        for is_last in (False, True):
            channel = self._started()
            deadline = time.monotonic() + self.limits.timeout_s
            self._requests += 1
            try:
                channel.send({**request, "request": self._requests}, table, deadline)
                message = channel.receive(deadline)
                break
            except ChannelClosedError:
                # An idle host may end just before it gets the request. It has not run any code then.
                if is_last or self._exit_status() != IDLE_EXIT:
                    raise
                self._kill()
        if message.header.get("request") != self._requests:
            raise GarbageError("an answer to no question")
        return message

    def _started(self) -> Channel:
        if self._process is not None and self._process.poll() is not None:
            self._kill()
        if self._channel is None:
            starter = _starters.setdefault(os.getpid(), ThreadPoolExecutor(1, thread_name_prefix="code-hosts"))
            self._process, self._channel, self._attendant = starter.submit(start, self.path, self.log_name, self.limits).result()
            self._wait_until_ready(self._channel)
        return self._channel

    def _wait_until_ready(self, channel: Channel) -> None:
        try:
            ready = channel.receive(time.monotonic() + MAX_START_S)  # before the host loads any code, so it can be trusted
            self._missing_guards = tuple(ready.header["missing_guards"])
        except ChannelError as error:
            log = Path(self.limits.log_folder, self.log_name) if self.limits.log_folder else "its log"
            message = f"a process for user code does not start: {error}"
            raise OperationalError(message, hint=f"see {log}; HEADRACE_CODE_MEMORY may be too small") from None

    def _exit_status(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return None if self._process is None else self._process.wait(1.0)
        return None

    def _end_of_process(self, call: Call) -> Error:
        status = self._exit_status()
        if status is None:  # it has closed its pipes, and is still running
            self._kill()
            return failures.death_error(call, CHANNEL_EXIT)
        self._kill()
        return failures.death_error(call, status)

    def _checked(self, call: Call, message: Message) -> Message:
        error = message.header.get("error")
        if error is None:
            return message
        if not isinstance(error, dict):
            raise GarbageError("an error without a description")
        if error.get("kind") in ("exit", "memory"):
            self._kill()
        raise failures.error_of_answer(call, error, network=self.limits.network)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its children."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def start(path: str, log_name: str, limits: HostLimits) -> tuple[subprocess.Popen[bytes], Channel, Attendant]:
    """Start a host for the code in a file, with what attends to it; its output goes to a log."""
    folders = [folder for folder in limits.folders.split(":") if folder]
    search_path = package_path()
    confinement = Confinement(
        parent=os.getpid(),
        memory_bytes=limits.memory_bytes,
        file_bytes=limits.log_bytes,
        network=limits.network,
        readable=[*search_path, *([path] if path else []), *folders],
        writable=folders,
    )
    handover, its_handover = socket.socketpair()
    options = {"confinement": asdict(confinement), "idle_s": limits.idle_s, "handover_fd": its_handover.fileno()}
    command = [sys.executable, "-I", "-S", "-B", "-c", START, json.dumps(search_path), json.dumps(options)]
    with its_handover:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(its_handover.fileno(),),
            env={**ENVIRONMENT, **({"TMPDIR": folders[0]} if folders else {})},
            cwd="/",
            start_new_session=True,
        )
    write_fd, read_fd, output_fd = (own_descriptor(pipe) for pipe in (process.stdin, process.stdout, process.stderr))
    log = Log(Path(limits.log_folder, log_name) if limits.log_folder else None, limits.log_bytes)
    attendant = Attendant(process.pid, output_fd, handover, log)
    return process, Channel(read_fd, write_fd, max_body_bytes=limits.memory_bytes), attendant


def own_descriptor(pipe: IO[bytes] | None) -> int:
    """Return a descriptor of a pipe, which is closed with it no more."""
    assert pipe is not None
    with pipe:
        return os.dup(pipe.fileno())


def package_path() -> list[str]:
    """Return where a host finds Headrace and the installed packages: not the current folder, which may be the user's home."""
    own = str(Path(__file__).resolve().parents[2])
    return [own, *(entry for entry in sys.path if Path(entry).name in PACKAGE_FOLDERS and entry != own)]

"""A function that misbehaves in the way that its attribute `act` names. Tests run it in code hosts."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import datetime
import fcntl
import os
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.udf import UDTF, Parameters, PointCollector, Row, Type, UDTFConfigurations

CHUNK = b"x" * (1 << 20)


class Hostile(UDTF):
    """Does what its attribute `act` names at the first row, and returns what that returned as text."""

    def before_start(self, parameters: Parameters, configurations: UDTFConfigurations) -> None:
        """Choose the act."""
        configurations.set_output_data_type(Type.TEXT)
        self.act = parameters.get_string_or_default("act", "nothing")

    def transform(self, row: Row, collector: PointCollector) -> None:
        """Act."""
        collector.put_string(row.get_time(), str(ACTS[self.act]()))


def write_log(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def nothing() -> str:
    return "fine"


def loop() -> None:
    while True:
        pass


def loop_in_native_code() -> None:
    pow(7, 7**8, 10**9_000_000)


def sleep() -> None:
    time.sleep(1_000)


def read_pipe() -> None:
    os.read(os.pipe()[0], 1)


def ignore_signals_and_loop() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    loop()


def read_input() -> str:
    return repr(sys.stdin.read())


def allocate() -> None:
    bytearray(10 << 30)


def allocate_bit_by_bit() -> None:
    chunks = []
    while True:
        chunks.append(bytearray(CHUNK))


def allocate_in_arrow() -> None:
    pa.allocate_buffer(10 << 30)


def recurse() -> None:
    recurse()


def end_process() -> None:
    os._exit(7)


def end_process_in_thread() -> None:
    threading.Thread(target=end_process).start()
    sleep()


def exit_politely() -> None:
    sys.exit("goodbye")


def interrupt() -> None:
    raise KeyboardInterrupt


def crash() -> None:
    ctypes.string_at(0)


def abort() -> None:
    os.abort()


def fork() -> None:
    for _ in range(20):  # bounded, should nothing stop it
        os.fork()


def spawn() -> int:
    return os.spawnv(os.P_NOWAIT, "/bin/sleep", ["sleep", "1000"])


def start_threads() -> None:
    for _ in range(10_000):
        threading.Thread(target=sleep, daemon=True).start()


def start_small_threads() -> str:
    threading.stack_size(32 << 10)
    stop = threading.Event()
    started = 0
    try:
        for _ in range(1_500):
            threading.Thread(target=stop.wait, daemon=True).start()
            started += 1
    except RuntimeError:
        pass
    stop.set()
    return str(started)


def print_much() -> str:
    for _ in range(64):
        sys.stdout.write("x" * (1 << 20))
    return "printed"


def write_much_to_log() -> str:
    for _ in range(64):
        os.write(1, CHUNK)
    return "written"


def write_library_to_log() -> None:
    """Let the log begin as a shared library does."""
    for change in (lambda: os.ftruncate(2, 0), lambda: os.lseek(2, 0, os.SEEK_SET), lambda: fcntl.fcntl(2, fcntl.F_SETFL, 0)):
        with contextlib.suppress(OSError):
            change()
    os.write(2, b"\x7fELF\x02\x01\x01" + bytes(9) + "grün ".encode() + b"\xff\x1b[31m\n")


def close_descriptors() -> None:
    os.closerange(0, 1_000)


def close_descriptors_and_loop() -> None:
    os.closerange(0, 1_000)
    loop()


def write_garbage() -> None:
    for descriptor in range(3, 100):
        try:
            os.write(descriptor, b"garbage" * 100)
        except OSError:
            continue


def answer_falsely() -> None:
    """Write a message with a text that would be read from memory that is not its own."""
    from headrace.code.protocol import MAGIC, PREFIX, stream_of

    table = pa.table({"series": [0], "time": [0], "value": ["x" * 0x1234]})
    body = stream_of(table).to_pybytes().replace(struct.pack("<ii", 0, 0x1234), struct.pack("<ii", 0, 0x7FFFFF00))
    header = b'{"request": 1}'
    os.write(4, PREFIX.pack(MAGIC, len(header), len(body)) + header + body)
    sleep()


def answer_with_text() -> None:
    """Write a message that has a table of a wrong type."""
    from headrace.code.protocol import Channel

    Channel(os.dup(3), os.dup(4)).send({"request": 1}, pa.table({"series": ["a"], "time": ["b"], "value": ["c"]}))
    sleep()


class SilentError(Exception):
    """An error that fails when it is shown."""

    def __str__(self) -> str:
        raise RuntimeError("no")

    def __reduce__(self) -> str:
        raise RuntimeError("no")


def raise_silently() -> None:
    raise SilentError


def raise_much() -> None:
    raise ValueError("y" * (64 << 20))


def raise_strange_text() -> None:
    raise ValueError("\ud800 \x00 \x1b[31m")


def raise_parameter() -> None:
    from headrace.udf import ParameterError

    raise ParameterError("no such parameter")


def show_environment() -> str:
    return str(dict(os.environ))


def read_parent_environment() -> bytes:
    return Path(f"/proc/{os.getppid()}/environ").read_bytes()


def read_parent_memory() -> int:
    return len(Path(f"/proc/{os.getppid()}/maps").read_bytes())


def slow_parent() -> None:
    os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)


def pin_parent() -> None:
    os.sched_setaffinity(os.getppid(), {0})


def hide_memory() -> None:
    os.memfd_create("hidden")


def share_memory() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.shmget(0, 1 << 20, 0o1600) < 0:
        raise PermissionError(os.strerror(ctypes.get_errno()))


def kill_parent() -> None:
    os.kill(os.getppid(), signal.SIGKILL)


def read_home() -> list[str]:
    return os.listdir(Path(__file__).parent.parent)


def write_file() -> None:
    Path("/tmp/headrace-hostile").write_text("was here")


def write_temporary_file() -> str:
    with tempfile.NamedTemporaryFile() as file:
        return file.name


def open_connection() -> None:
    socket.socket().connect(("127.0.0.1", 9))


def find_host() -> str:
    return str(socket.getaddrinfo("localhost", 80))


def listen() -> None:
    socket.create_server(("127.0.0.1", 0))


def listen_to_unix_sockets() -> None:
    socket.socket(socket.AF_UNIX)


def send_to_unix_sockets() -> None:
    """Send to any address by one socket of a pair."""
    socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)


def become_another_program() -> None:
    os.execv("/bin/true", ["true"])


def read_machine() -> list[str]:
    return os.listdir("/etc")


def read_settings_of_machine() -> str:
    """Read a file that all users of the machine may read."""
    return Path("/etc/group").read_text()


def read_command_lines() -> list[str]:
    return os.listdir("/proc")


def read_programs() -> bytes:
    return Path("/bin/sh").read_bytes()


def run_event_loop() -> str:
    async def run() -> str:
        _, writer = await asyncio.open_connection(sock=socket.socketpair()[0])
        writer.close()
        return "ran"

    return asyncio.run(run())


def use_libraries() -> str:
    """Use what reads files: time zones, certificates, shared libraries, the processor."""
    import decimal
    import sqlite3
    import ssl
    import zoneinfo

    import pyarrow.compute as pc
    import pyarrow.parquet

    assert ssl.create_default_context()
    assert decimal.Decimal(1)
    sqlite3.connect(":memory:").close()
    assert pyarrow.parquet
    assert os.cpu_count()
    assert pc.sum(pa.array(range(100_000))).as_py()
    return str(datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC).astimezone(zoneinfo.ZoneInfo("Europe/Berlin")))


def survive_parent() -> None:
    ctypes.CDLL(None).prctl(1, 0)
    write_log("running")
    loop()


def print_and_wait() -> None:
    write_log("waiting")
    sleep()


def list_descriptors() -> list[str]:
    descriptors = []
    for number in os.listdir("/proc/self/fd"):
        try:
            descriptors.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:  # the one that has read the folder
            continue
    return descriptors


def list_privileges() -> list[str]:
    wanted = ("CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp:")
    return [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(wanted)]


ACTS: dict[str, Callable[[], Any]] = {
    act.__name__: act for act in list(globals().values()) if callable(act) and act.__module__ == __name__
}

"""Functions that misbehave: each call fails with one error, and nothing else notices."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import pytest

from headrace.code.attendants import MAX_THREADS
from headrace.code.hosts import HostedClass, HostLimits
from headrace.errors import FunctionError, TypeMismatchError, UserCodeError
from headrace.udf import Parameters, Type
from tests.code import hostile_functions
from tests.code.hosting import log_of, rows_of, run_series, write_code

SOURCE = Path(hostile_functions.__file__).read_text()
MEMORY = 128 << 20
LIMITS = HostLimits(memory_bytes=MEMORY, log_bytes=1 << 20)
QUICK = HostLimits(memory_bytes=MEMORY, log_bytes=1 << 20, timeout_s=1.5)
ROWS = rows_of([1, 2], [3])

CRASHES = {
    "allocate": "used more memory than allowed: MemoryError",
    "allocate_bit_by_bit": "used more memory than allowed: MemoryError",
    "allocate_in_arrow": "used more memory than allowed: ArrowMemoryError",
    "recurse": "RecursionError",
    "end_process": "its code host ended with status 7",
    "end_process_in_thread": "its code host ended with status 7",
    "exit_politely": "ended the process by SystemExit: goodbye",
    "interrupt": "ended the process by KeyboardInterrupt",
    "crash": r"its code host crashed by signal 11 \(Segmentation fault\)",
    "abort": r"its code host crashed by signal 6 \(Aborted\)",
    "fork": "PermissionError",
    "spawn": "PermissionError",
    "start_threads": "RuntimeError: can't start new thread",
    "close_descriptors": "it closed the pipes of its code host",
    "write_garbage": "its code host sent an answer that cannot be read",
    "answer_falsely": "its code host sent an answer that cannot be read",
    "answer_with_text": "its code host sent an answer that cannot be read",
    "raise_silently": "SilentError",
    "raise_much": "ValueError: y{2000}…",
    "raise_strange_text": "ValueError: ",
    "read_parent_environment": "PermissionError",
    "read_parent_memory": "PermissionError",
    "kill_parent": "PermissionError",
    "slow_parent": "PermissionError",
    "pin_parent": "PermissionError",
    "hide_memory": "PermissionError",
    "share_memory": "PermissionError",
    "read_home": "PermissionError",
    "write_file": "PermissionError",
    "write_temporary_file": "FileNotFoundError",
    "open_connection": "OSError: .*Network is down at functions.py.*; HEADRACE_CODE_NETWORK does not let it open connections",
    "find_host": "gaierror: .* at functions.py.*; HEADRACE_CODE_NETWORK does not let it open connections",
    "listen": "OSError: .*Network is down",
    "listen_to_unix_sockets": "PermissionError",
    "send_to_unix_sockets": "PermissionError",
    "become_another_program": "PermissionError",
    "read_machine": "PermissionError",
    "read_settings_of_machine": "PermissionError",
    "read_command_lines": "PermissionError",
    "read_programs": "PermissionError",
}
HANGS = ("loop", "loop_in_native_code", "sleep", "read_pipe", "ignore_signals_and_loop", "close_descriptors_and_loop")


def hostile(folder: Path, limits: HostLimits = LIMITS) -> HostedClass:
    """Return the description of the function that misbehaves."""
    return write_code(folder, SOURCE, "Hostile", limits)


def act(hosted: HostedClass, name: str) -> str:
    """Let the function do something at the first of two rows of the first series, and return what it has returned."""
    points = run_series(hosted, Parameters([Type.INT64], {"act": name}), ROWS)
    assert points["series"].to_pylist() == [0, 0, 1]
    return str(points["value"][0])


@pytest.mark.parametrize("name", CRASHES)
def test_a_failure_is_one_error_that_names_function_and_rows(tmp_path: Path, name: str) -> None:
    hosted = hostile(tmp_path)
    with pytest.raises((FunctionError, UserCodeError)) as failure:
        act(hosted, name)
    assert re.match(rf"functions.Hostile failed on series 0 (at time 0|to 1): {CRASHES[name]}", failure.value.message)
    assert len(failure.value.message) < 3_000
    assert failure.value.message.isprintable()
    assert act(hosted, "nothing") == "fine"


@pytest.mark.parametrize("name", HANGS)
def test_a_call_that_does_not_end_is_ended(tmp_path: Path, name: str) -> None:
    hosted = hostile(tmp_path, QUICK)
    with pytest.raises(
        FunctionError, match=r"functions.Hostile failed on series 0 to 1: it (took longer than 1.5 s|closed the pipes)"
    ):
        act(hosted, name)
    assert act(hosted, "nothing") == "fine"


def test_a_parameter_error_is_a_type_error_whenever_it_is_raised(tmp_path: Path) -> None:
    with pytest.raises(TypeMismatchError, match="no such parameter"):
        act(hostile(tmp_path), "raise_parameter")


def test_input_is_empty(tmp_path: Path) -> None:
    assert act(hostile(tmp_path), "read_input") == "''"


def test_printing_much_is_no_error_and_the_log_is_bounded(tmp_path: Path) -> None:
    hosted = hostile(tmp_path)
    for _ in range(3):
        assert act(hosted, "print_much") == "printed"
    assert "further output is left out" in log_of(hosted)
    assert len(log_of(hosted)) <= LIMITS.log_bytes


def test_writing_past_the_log_is_bounded(tmp_path: Path) -> None:
    hosted = hostile(tmp_path)
    for _ in range(3):
        assert act(hosted, "write_much_to_log") == "written"
    assert sum(file.stat().st_size for file in Path(hosted.limits.log_folder).iterdir()) <= 2 * LIMITS.log_bytes


def test_a_log_is_text_for_its_owner_and_never_a_library(tmp_path: Path) -> None:
    hosted = hostile(tmp_path)
    act(hosted, "write_library_to_log")
    assert log_of(hosted).startswith(r"\x7fELF\x02\x01\x01\x00")
    assert log_of(hosted).endswith("grün \\xff\\x1b[31m\n")
    path = Path(hosted.limits.log_folder, hosted.log_name)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_threads_are_limited_however_small(tmp_path: Path) -> None:
    hosted = hostile(tmp_path)
    assert MAX_THREADS // 2 < int(act(hosted, "start_small_threads")) <= MAX_THREADS
    assert act(hosted, "nothing") == "fine"


def test_the_environment_has_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_HTTP_TOKEN", "a-token")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-key")
    environment = act(hostile(tmp_path), "show_environment")
    assert "PATH" in environment
    assert "a-token" not in environment
    assert "a-key" not in environment


def test_a_host_inherits_no_files_and_has_no_privileges(tmp_path: Path) -> None:
    hosted = hostile(tmp_path)
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        descriptors = act(hosted, "list_descriptors")
    assert str(tmp_path / "open") not in descriptors
    assert len(set(re.findall(r"pipe:\[\d+\]", descriptors))) == 3
    assert "socket:" not in descriptors
    privileges = act(hosted, "list_privileges")
    assert privileges.count("\\t0000000000000000") == 3
    assert "NoNewPrivs:\\t1" in privileges
    assert "Seccomp:\\t2" in privileges


def test_folders_of_the_setting_are_open(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    limits = HostLimits(folders=f"{folder}:{tmp_path / 'missing'}")
    hosted = write_code(tmp_path, SOURCE.replace("/tmp/", f"{folder}/"), "Hostile", limits)
    act(hosted, "write_file")
    assert (folder / "headrace-hostile").read_text() == "was here"
    assert act(hosted, "write_temporary_file").startswith(f"{folder}/")


def test_a_host_with_the_network_connects_to_hosts_and_to_no_unix_sockets(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        source = SOURCE.replace('("127.0.0.1", 9)', repr(server.getsockname()))
        hosted = write_code(tmp_path, source, "Hostile", HostLimits(network=True))
        act(hosted, "open_connection")
        server.accept()[0].close()
    assert "127.0.0.1" in act(hosted, "find_host")
    for name in ("listen_to_unix_sockets", "send_to_unix_sockets"):
        with pytest.raises(FunctionError, match="PermissionError"):
            act(hosted, name)


@pytest.mark.parametrize("network", [False, True])
def test_an_event_loop_runs(tmp_path: Path, *, network: bool) -> None:
    assert act(hostile(tmp_path, HostLimits(network=network)), "run_event_loop") == "ran"


def test_a_host_reads_what_libraries_need(tmp_path: Path) -> None:
    assert act(hostile(tmp_path), "use_libraries") == "2026-01-01 01:00:00+01:00"

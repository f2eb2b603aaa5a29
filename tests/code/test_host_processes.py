"""The processes of code hosts: how they start, are shared, and end."""

from __future__ import annotations

import os
import pickle
import random
import select
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.code.hosts import HostedClass, HostLimits, current_hosts
from headrace.errors import InvalidCodeError, OperationalError, UserCodeError
from headrace.udf import Parameters, Type
from tests.code import hostile_functions
from tests.code.hosting import LONG, log_of, rows_of, run_series, write_code
from tests.support.waiting import MAX_WAIT_S, wait_until

SOURCE = Path(hostile_functions.__file__).read_text()
ROWS = rows_of([1, 2], [3])
CALLS = 30


def write(folder: Path, limits: HostLimits | None = None) -> HostedClass:
    """Store the functions that misbehave, and return a description of their class."""
    return write_code(folder, SOURCE, "Hostile", limits)


def act(hosted: HostedClass, name: str) -> str:
    """Let the function do something, and return what it has returned."""
    return str(run_series(hosted, Parameters([Type.INT64], {"act": name}), ROWS)["value"][0])


def pid_of(hosted: HostedClass) -> int:
    """Return the process that the class runs in."""
    pid = current_hosts().host(hosted).pid
    assert pid is not None
    return pid


def wait_for_end(pidfd: int) -> None:
    """Wait until a process has ended."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    assert poller.poll(MAX_WAIT_S * 1_000), "the process still runs"
    os.close(pidfd)


def test_classes_of_a_file_and_an_owner_share_a_process(tmp_path: Path) -> None:
    hosted = write(tmp_path)
    other_owner = replace(hosted, owner="eve")
    act(hosted, "nothing")
    with pytest.raises(InvalidCodeError):
        replace(hosted, class_name="Missing").describe()
    act(pickle.loads(pickle.dumps(hosted)), "nothing")
    act(other_owner, "nothing")
    assert pid_of(hosted) == pid_of(replace(hosted, class_name="Missing"))
    assert pid_of(hosted) != pid_of(other_owner)


def test_a_host_loads_little_of_headrace(tmp_path: Path) -> None:
    source = SOURCE + "\ndef modules(): return sorted(sys.modules)\nACTS['modules'] = modules\n"
    modules = act(write_code(tmp_path, source, "Hostile"), "modules")
    for name in ("headrace.settings", "headrace.compute", "headrace.catalog", "headrace.sql", "pyspark", "pydantic", "sqlalchemy"):
        assert f"'{name}'" not in modules
    assert "'headrace.udf'" in modules


def test_a_host_that_was_killed_while_idle_is_replaced(tmp_path: Path) -> None:
    hosted = write(tmp_path)
    act(hosted, "nothing")
    pidfd = os.pidfd_open(pid_of(hosted))
    os.kill(pid_of(hosted), signal.SIGKILL)
    wait_for_end(pidfd)
    assert act(hosted, "nothing") == "fine"


def test_a_host_that_is_killed_while_working_fails_the_call(tmp_path: Path) -> None:
    hosted = write(tmp_path)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(act, hosted, "print_and_wait")
        wait_until(lambda: "waiting" in log_of(hosted) if Path(hosted.limits.log_folder).exists() else None, "the function")
        os.kill(pid_of(hosted), signal.SIGKILL)
        with pytest.raises(UserCodeError, match="its code host was killed, by another process or for lack of memory"):
            call.result()
    assert act(hosted, "nothing") == "fine"


def test_closing_hosts_fails_the_calls_in_them(tmp_path: Path) -> None:
    hosted = write(tmp_path)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(act, hosted, "print_and_wait")
        wait_until(lambda: "waiting" in log_of(hosted) if Path(hosted.limits.log_folder).exists() else None, "the function")
        current_hosts().close()
        with pytest.raises(UserCodeError, match="its code host was killed"):
            call.result()
    assert act(hosted, "nothing") == "fine"


def test_a_host_may_be_killed_at_any_moment(tmp_path: Path) -> None:
    hosted = write(tmp_path)
    stop = threading.Event()
    randomness = random.Random(1)

    def kill_again_and_again() -> None:
        while not stop.wait(randomness.random() * 0.3):
            with suppress(ProcessLookupError):
                os.kill(current_hosts().host(hosted).pid or 1 << 22, signal.SIGKILL)

    killer = threading.Thread(target=kill_again_and_again)
    killer.start()
    outcomes = set()
    for _ in range(CALLS):
        try:
            outcomes.add(act(hosted, "nothing"))
        except OperationalError as error:  # including UserCodeError
            outcomes.add(error.message)
    stop.set()
    killer.join()
    assert {text for text in outcomes if "killed" not in text and "does not start" not in text} <= {"fine"}
    assert act(hosted, "nothing") == "fine"


def test_a_host_that_is_not_used_ends_and_is_replaced(tmp_path: Path) -> None:
    hosted = write(tmp_path, HostLimits(idle_s=0.01))
    act(hosted, "nothing")
    first = pid_of(hosted)
    wait_for_end(os.pidfd_open(first))
    assert act(hosted, "nothing") == "fine"
    assert pid_of(hosted) != first


def test_a_host_that_ends_just_before_a_request_is_replaced(tmp_path: Path) -> None:
    hosted = write(tmp_path, HostLimits(idle_s=0.001))
    assert {act(hosted, "nothing") for _ in range(CALLS)} == {"fine"}


PARENT = """
import sys
from headrace.code.hosts import HostedClass, HostLimits, current_hosts
from headrace.udf import Parameters, Type
from tests.code.hosting import rows_of, run_series

hosted = HostedClass(sys.argv[1], "", "functions", "Hostile", "ada", HostLimits(log_folder=sys.argv[2]))
hosted.describe()
print(current_hosts().host(hosted).pid, flush=True)
run_series(hosted, Parameters([Type.INT64], {"act": sys.argv[3]}), rows_of([1]))
"""


@pytest.mark.parametrize("name", ["survive_parent", "print_and_wait"])
def test_a_host_ends_with_its_parent(tmp_path: Path, name: str) -> None:
    hosted = write(tmp_path)
    # The function "survive_parent" asks the system not to kill it, which is refused, and then loops without reading its pipe.
    command = [sys.executable, "-c", PARENT, hosted.path, str(tmp_path / "logs"), name]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as parent:
        assert parent.stdout is not None
        pidfd = os.pidfd_open(int(parent.stdout.readline()))
        log = tmp_path / "logs" / "ada-functions.log"
        wait_until(lambda: log.exists() and log.read_text() != "", "the function")
        parent.kill()
    wait_for_end(pidfd)


def test_a_host_survives_the_thread_that_needed_it_first(tmp_path: Path) -> None:
    hosted = write(tmp_path)
    thread = threading.Thread(target=act, args=(hosted, "nothing"))
    thread.start()
    thread.join()
    first = pid_of(hosted)
    assert act(hosted, "nothing") == "fine"
    assert pid_of(hosted) == first


def test_threads_share_a_host(tmp_path: Path) -> None:
    hosted = write_code(tmp_path, THREADS, "Same")
    with ThreadPoolExecutor(8) as pool:
        results = pool.map(lambda value: run_series(hosted, LONG, rows_of([value]))["value"].to_pylist(), range(100))
    assert list(results) == [[value] for value in range(100)]


THREADS = """
from headrace.udf import UDTF, MappableRowByRowAccessStrategy, Type

class Same(UDTF):
    def before_start(self, parameters, configurations):
        configurations.set_output_data_type(Type.INT64).set_access_strategy(MappableRowByRowAccessStrategy())
    def transform(self, row, collector):
        return row.get_long(0)
"""

CHILD = """
import os
import sys
from headrace.code.hosts import HostedClass, HostLimits, current_hosts
from headrace.udf import Parameters, Type
from tests.code.hosting import LONG, rows_of, run_series

hosted = HostedClass(sys.argv[1], "", "functions", "Hostile", "ada", HostLimits())
run_series(hosted, LONG, rows_of([1]))
first = current_hosts().host(hosted).pid
child = os.fork()
if child == 0:
    run_series(hosted, LONG, rows_of([1]))
    other = current_hosts().host(hosted).pid
    current_hosts().close()
    os._exit(0 if other != first else 1)
assert os.waitpid(child, 0)[1] == 0
run_series(hosted, LONG, rows_of([1]))
assert current_hosts().host(hosted).pid == first
"""


def test_a_forked_process_has_hosts_of_its_own(tmp_path: Path) -> None:
    hosted = write(tmp_path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", CHILD, hosted.path], env=environment, check=True, timeout=MAX_WAIT_S)


def test_a_process_that_does_not_start_is_an_error_that_names_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.code.host_process.package_path", lambda: ["/missing"])
    with pytest.raises(OperationalError, match="a process for user code does not start") as failure:
        write(tmp_path).describe()
    assert "No module named 'headrace'" in log_of(write(tmp_path))
    assert "see " in failure.value.hint

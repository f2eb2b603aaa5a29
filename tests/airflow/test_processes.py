"""Processes that outlive the command that starts them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from headrace.errors import ConfigurationError, OperationalError
from headrace.runtime import embedded_airflow
from headrace.runtime.airflow_settings import airflow_environment, settings_environment
from headrace.runtime.login import AirflowHome, ensure_login, find_login, read_json, write_private
from headrace.runtime.processes import (
    SYSTEM_VARIABLE,
    Service,
    describe_port_owner,
    end_processes,
    find_free_port,
    find_marked,
    is_driver,
    is_port_free,
    is_running,
)
from headrace.settings import Settings, load
from tests.support.waiting import wait_until

SLEEP = "import time; time.sleep(600)"
# Starts a child in a new session, as Airflow does with tasks, prints its process id, and waits.
PARENT = (
    "import subprocess, sys, time\n"
    f"child = subprocess.Popen([sys.executable, '-c', {SLEEP!r}], start_new_session=True)\n"
    "print(child.pid, flush=True)\n"
    "time.sleep(600)\n"
)


@pytest.fixture
def started(settings: Settings) -> Iterator[tuple[Service, psutil.Process]]:
    """Start a service that starts a child."""
    run = AirflowHome(settings).run
    run.mkdir(parents=True)
    service = Service("parent", (sys.executable, "-c", PARENT), settings.home_path / "logs" / "parent.log", run / "parent.json")
    process = service.start({**os.environ, SYSTEM_VARIABLE: str(settings.home_path)}, settings.home_path)
    yield service, process
    end_processes([process, *find_marked(settings.home_path)], signal.SIGKILL, 5)


def child_of(service: Service) -> int:
    """Wait for the parent to print the child's process id, and return it."""
    wait_until(service.tail, "the service to print")
    return int(service.tail().split()[0])


def test_a_service_is_identified_by_process_id_and_start_time(started: tuple[Service, psutil.Process]) -> None:
    service, process = started
    current = service.process()
    assert current is not None
    assert current.pid == process.pid
    assert os.getsid(process.pid) == process.pid


def test_a_reused_process_id_is_not_the_service(started: tuple[Service, psutil.Process]) -> None:
    service, process = started
    write_private(service.record, {"pid": process.pid, "started": process.create_time() - 3_600})
    assert service.process() is None


def test_a_service_that_has_ended_has_no_process(started: tuple[Service, psutil.Process]) -> None:
    service, process = started
    process.kill()
    process.wait(10)
    assert service.process() is None


def test_an_orphaned_child_is_found_by_its_mark(started: tuple[Service, psutil.Process], settings: Settings) -> None:
    service, process = started
    child = child_of(service)
    process.kill()
    process.wait(10)
    assert [marked_process.pid for marked_process in find_marked(settings.home_path)] == [child]


def test_stopping_leaves_no_process_and_is_idempotent(started: tuple[Service, psutil.Process], settings: Settings) -> None:
    service, process = started
    child = child_of(service)
    process.kill()
    process.wait(10)
    assert embedded_airflow.stop(settings).ended == 1
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE
    assert embedded_airflow.stop(settings).ended == 0


def test_processes_of_another_home_are_not_stopped(started: tuple[Service, psutil.Process], tmp_path: Path) -> None:
    other = load(home=tmp_path / "other")
    AirflowHome(other).run.mkdir(parents=True)
    assert embedded_airflow.stop(other).ended == 0
    assert started[0].process() is not None


def test_stopping_without_a_start_creates_no_folder(settings: Settings) -> None:
    assert embedded_airflow.stop(settings) == embedded_airflow.Stopped(0, 0)
    assert not settings.home_path.exists()


def test_a_busy_port_is_reported_with_its_owner_and_the_setting(tmp_path: Path) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        assert not is_port_free(port)
        assert str(os.getpid()) in describe_port_owner(port)
        with pytest.raises(ConfigurationError, match=f"port {port} is in use by .* .process {os.getpid()}.") as raised:
            embedded_airflow.start(load(home=tmp_path / "home", airflow_port=port))
    assert "HEADRACE_AIRFLOW_PORT" in raised.value.hint
    assert is_port_free(find_free_port())


def test_without_java_nothing_is_started(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigurationError, match="no Java runtime on JAVA_HOME="):
        embedded_airflow.start(settings)
    assert not embedded_airflow.status(settings).running


def test_two_commands_do_not_start_and_stop_concurrently(settings: Settings) -> None:
    from filelock import FileLock

    run = AirflowHome(settings).run
    run.mkdir(parents=True)
    with FileLock(run / "system.lock"), pytest.raises(OperationalError, match="another `headrace up`"):
        embedded_airflow.stop(settings)


def test_the_password_is_created_once_and_readable_only_by_its_owner(settings: Settings) -> None:
    home = AirflowHome(settings)
    assert find_login(settings) is None
    assert ensure_login(home)
    before = find_login(settings)
    assert not ensure_login(home)
    assert find_login(settings) == before
    assert before is not None
    assert len(before.password) >= 12
    assert {path.stat().st_mode & 0o777 for path in (home.passwords, home.secrets)} == {0o600}


def test_a_damaged_file_is_reported_and_not_overwritten(settings: Settings) -> None:
    home = AirflowHome(settings)
    home.folder.mkdir(parents=True)
    home.passwords.write_text('{"admin": ')
    with pytest.raises(ConfigurationError, match="cannot be read"):
        find_login(settings)


def test_a_remote_airflow_takes_precedence_over_the_one_of_the_home(tmp_path: Path) -> None:
    settings = load(home=tmp_path, airflow_url="https://airflow.example/", airflow_user="vera", airflow_password="secret")
    ensure_login(AirflowHome(settings))
    login = find_login(settings)
    assert login is not None
    assert (login.url, login.user, login.password) == ("https://airflow.example", "vera", "secret")


def test_components_share_secrets_and_ignore_the_settings_of_another_airflow(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    monkeypatch.setenv("AIRFLOW_HOME", "/somewhere/else")
    home = AirflowHome(settings)
    ensure_login(home)
    environment = airflow_environment(settings, {"api": 18_080, "worker_logs": 1, "trigger_logs": 2})
    assert environment["AIRFLOW__CORE__EXECUTOR"] == "headrace_executor.LocalExecutor"
    assert environment["AIRFLOW_HOME"] == str(home.folder)
    assert environment["AIRFLOW__API_AUTH__JWT_SECRET"] == read_json(home.secrets)["jwt_secret"]
    assert environment["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://127.0.0.1:18080/execution/"


def test_every_airflow_option_exists(settings: Settings) -> None:
    ensure_login(AirflowHome(settings))
    environment = airflow_environment(settings, {"api": 18_080, "worker_logs": 1, "trigger_logs": 2})
    assert unknown_options(environment) == []


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg", "postgresql+psycopg2"])
def test_airflow_may_have_a_database_of_its_own(settings: Settings, scheme: str) -> None:
    ensure_login(AirflowHome(settings))
    own = settings.replace({"airflow_database_url": f"{scheme}://airflow:secret@db.example/airflow"})
    environment = airflow_environment(own, {"api": 18_080, "worker_logs": 1, "trigger_logs": 2})
    for option in ("SQL_ALCHEMY_CONN", "SQL_ALCHEMY_CONN_ASYNC"):
        assert environment[f"AIRFLOW__DATABASE__{option}"] == "postgresql+psycopg://airflow:secret@db.example/airflow"
    assert unknown_options(environment) == []


def test_an_invalid_url_of_airflows_database_is_refused_without_showing_it(settings: Settings) -> None:
    ensure_login(AirflowHome(settings))
    invalid = settings.replace({"airflow_database_url": "airflow:secret"})
    with pytest.raises(ConfigurationError, match="HEADRACE_AIRFLOW_DATABASE_URL is not the URL") as caught:
        airflow_environment(invalid, {"api": 18_080, "worker_logs": 1, "trigger_logs": 2})
    assert "secret" not in str(caught.value)


def unknown_options(environment: dict[str, str]) -> list[str]:
    """Return the options that are missing from Airflow's description of its configuration."""
    from importlib.util import find_spec

    import yaml

    origin = find_spec("airflow")
    assert origin is not None
    assert origin.submodule_search_locations is not None
    text = (Path(origin.submodule_search_locations[0]) / "config_templates" / "config.yml").read_text()
    options = {
        f"AIRFLOW__{section}__{option}".upper()
        for section, content in yaml.safe_load(text).items()
        for option in content["options"]
    }
    # According to the description, these can also be set for a single component.
    options |= {name.replace("CORE", "SCHEDULER") for name in options if name.startswith("AIRFLOW__CORE__MP_")}
    return [name for name in environment if name.startswith("AIRFLOW__") and name not in options]


def test_child_processes_have_the_same_settings_in_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load(home="relative", driver_memory="512m", batch_rows=7)
    for name, value in settings_environment(settings).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir("/")
    assert load().home_path == tmp_path / "relative"
    assert (load().driver_memory, load().batch_rows) == ("512m", 7)


def test_the_python_process_of_a_driver_is_recognized(tmp_path: Path) -> None:
    (tmp_path / "spark_jobs").mkdir()
    job = tmp_path / "spark_jobs" / "snode.py"
    job.write_text(SLEEP)
    processes = [subprocess.Popen([sys.executable, str(job)]), subprocess.Popen([sys.executable, "-c", SLEEP])]
    try:
        assert [is_driver(psutil.Process(process.pid)) for process in processes] == [True, False]
    finally:
        for process in processes:
            process.kill()
            process.wait()


GUARDED = """#!/bin/sh
"$PYSPARK_DRIVER_PYTHON" -c "import os, time; print(os.getpid(), os.getppid(), flush=True); time.sleep(600)" &
wait
"""


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is of util-linux")
def test_a_guarded_driver_ends_with_its_task_even_if_that_is_killed(settings: Settings, tmp_path: Path) -> None:
    """A script starts Python as spark-submit does; the task that runs it is killed."""
    submit = tmp_path / "spark" / "bin" / "spark-submit"
    submit.parent.mkdir(parents=True)
    submit.write_text(GUARDED)
    submit.chmod(0o755)
    guard = str(settings.project / "bin" / "spark-submit-guard")
    environment = {**os.environ, "SPARK_HOME": str(tmp_path / "spark"), "PYSPARK_PYTHON": sys.executable}
    program = f"import subprocess; subprocess.run([{guard!r}, 'job.py'])"
    task = subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)
    assert task.stdout is not None
    driver, shell = (psutil.Process(int(number)) for number in task.stdout.readline().split())
    assert is_running(driver)
    assert is_running(shell)
    task.kill()
    task.wait()
    wait_until(lambda: not is_running(driver) and not is_running(shell), "driver and shell to end")


KEEP_RUNNING = str(Path(__file__).parents[2] / "bin" / "keep-running")
COUNT_STARTS = "echo started >> $0; [ $(wc -l < $0) -ge 3 ] || exit 7"


def test_what_fails_after_it_has_run_is_started_again(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    assert subprocess.run([KEEP_RUNNING, "0", "sh", "-c", COUNT_STARTS, str(starts)], check=False).returncode == 0
    assert len(starts.read_text().split()) == 3


def test_what_fails_at_once_is_not_started_again(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    assert subprocess.run([KEEP_RUNNING, "600", "sh", "-c", COUNT_STARTS, str(starts)], check=False).returncode == 7
    assert len(starts.read_text().split()) == 1


def test_what_is_asked_to_stop_is_not_started_again(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    script = f"trap 'echo > {ended}; exit 3' TERM; echo > {tmp_path}/ready; while :; do sleep 0.1; done"
    with subprocess.Popen([KEEP_RUNNING, "0", "sh", "-c", script]) as process:
        wait_until((tmp_path / "ready").exists, "the script to start")
        process.terminate()
        assert process.wait(30) == 0
    assert ended.exists()

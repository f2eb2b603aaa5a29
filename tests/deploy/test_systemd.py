"""The units of systemd: checked by systemd itself, and against what an snode does when it is stopped."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.app import app
from headrace.runtime.snode import GRACE_S, Exit
from headrace.settings import Settings
from tests.deploy.kustomize import ROOT

UNITS = ROOT / "deploy" / "systemd"
SERVICES = sorted(path.name for path in UNITS.glob("*.service"))
INSTANCES = {"headrace-snode@.service": "default", "headrace-airflow@.service": "scheduler"}
INSTALLED_IN = "/opt/headrace/.venv/bin"
needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")


def options(name: str) -> dict[str, list[str]]:
    """Return the values of the options of a unit."""
    found: dict[str, list[str]] = {}
    for line in (UNITS / name).read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            option, _, value = line.partition("=")
            found.setdefault(option, []).append(value)
    return found


def option(name: str, key: str) -> str:
    (value,) = options(name)[key]
    return value


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """Return a folder with the units, whose programs are those of this environment."""
    for path in UNITS.iterdir():
        text = path.read_text().replace(INSTALLED_IN, str(Path(sys.executable).parent))
        (tmp_path / path.name).write_text(text)
    return tmp_path


def verify(unit: Path) -> str:
    """Return what systemd has to say against a unit; an instance of one that is a template."""
    name = unit.name.replace("@.", f"@{INSTANCES[unit.name]}.") if "@" in unit.name else unit.name
    environment = os.environ | {"SYSTEMD_LOG_LEVEL": "warning", "SYSTEMD_UNIT_PATH": f"{unit.parent}:"}
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=one", str(unit.parent / name)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    lines = [line for line in done.stderr.splitlines() if "headrace" in line]
    return "\n".join(lines) or (f"exit code {done.returncode}: {done.stderr}" if done.returncode else "")


@needs_systemd
@pytest.mark.parametrize("name", sorted(path.name for path in UNITS.iterdir()))
def test_systemd_accepts_a_unit(units: Path, name: str) -> None:
    assert verify(units / name) == ""


@needs_systemd
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Restart=on-failure", "Restart=on-error", "restart"),
        ("KillMode=mixed", "KilMode=mixed", "KilMode"),
        ("TimeoutStopSec=30", "TimeoutStopSec=thirty", "thirty"),
        ("bin/headrace snode", "bin/no-such-program snode", "no-such-program"),
        ("ProtectSystem=strict", "ProtectSystem=strictly", "strictly"),
    ],
)
def test_systemd_finds_what_is_wrong_in_a_unit(units: Path, old: str, new: str, message: str) -> None:
    unit = units / "headrace-snode@.service"
    assert old in unit.read_text()
    unit.write_text(unit.read_text().replace(old, new))
    assert message.lower() in verify(unit).lower()


@needs_systemd
@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_confined(units: Path, name: str) -> None:
    """Systemd rates the exposure from 0 to 100; a service without options has 96."""
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=45", str(units / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr


@pytest.mark.parametrize("name", SERVICES)
def test_a_unit_runs_a_command_that_exists(name: str) -> None:
    for line in options(name)["ExecStart"]:
        program, command, *arguments = shlex.split(line.replace("%i", INSTANCES.get(name, "")))
        assert program in {f"{INSTALLED_IN}/headrace", f"{INSTALLED_IN}/airflow"}
        if program.endswith("headrace"):
            shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"})
            assert shown.exit_code == 0
            assert all(each in shown.stdout for each in arguments if each.startswith("--"))


@pytest.mark.parametrize("name", SERVICES)
def test_variables_are_settings_that_exist(name: str) -> None:
    settings = {f"HEADRACE_{setting.upper()}" for setting in Settings.fields}
    variables = [pair.partition("=")[0] for line in options(name)["Environment"] for pair in line.split()]
    assert {variable for variable in variables if variable.startswith("HEADRACE_")} <= settings


def test_an_snode_that_fails_starts_again_and_one_that_was_dropped_does_not() -> None:
    name = "headrace-snode@.service"
    assert option(name, "Restart") == "on-failure"
    assert [code for code in Exit if code == 0] == [Exit.OK]
    assert not {"RestartPreventExitStatus", "SuccessExitStatus", "RestartForceExitStatus"} & options(name).keys()
    assert option(name, "StartLimitIntervalSec") == "0"


def test_an_snode_has_time_to_end_its_micro_batch_and_ends_its_jvm_itself() -> None:
    name = "headrace-snode@.service"
    assert int(option(name, "TimeoutStopSec")) > 2 * GRACE_S
    assert (option(name, "KillMode"), option(name, "KillSignal")) == ("mixed", "SIGTERM")


def test_the_target_has_all_components_of_airflow() -> None:
    wanted = {
        name.partition("@")[2].removesuffix(".service")
        for line in options("headrace-airflow.target")["Wants"]
        for name in line.split()
    }
    assert wanted == {"api-server", "scheduler", "dag-processor", "triggerer"}

"""`headrace size`: what to start, and what breaks first."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.app import app
from headrace.cli.sizing.costs import FILE, CatalogKind, Kind, measured_costs
from headrace.cli.sizing.estimate import Part, estimate, recommend
from headrace.cli.sizing.workload import Storage, Trigger, Workload

COSTS = measured_costs()


def size(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["size", *arguments])
    return result.exit_code, result.output


def test_a_small_system_is_one_snode_with_sqlite() -> None:
    code, output = size("--devices", "1000", "--streams", "10")
    assert code == 0
    assert re.search(r"^snodes +1 ", output, re.MULTILINE)
    assert "HEADRACE_CATALOG_URL" not in output
    assert "breaks first" in output


def test_many_streams_need_several_snodes_and_postgresql() -> None:
    workload, result = recommend(Workload(100_000, 1.0, 300, tables=10), COSTS)
    assert workload.snodes > 1
    assert workload.catalog is CatalogKind.POSTGRESQL
    assert result.loads[Part.DRIVER] <= 1
    fewer = estimate(replace(workload, snodes=workload.snodes - 1), COSTS)
    assert max(fewer.loads[Part.DRIVER], fewer.loads[Part.MEMORY], fewer.loads[Part.CATALOG]) > 1


def test_what_is_too_much_is_said_with_what_to_do() -> None:
    code, output = size("--devices", "10000000", "--streams", "10000", "--snodes", "1", "--storage", "s3")
    assert code == 1
    assert "has too much to do: " in output
    assert "HEADRACE_WAREHOUSE" in output


@pytest.mark.parametrize(
    ("more", "part"),
    [
        ({"commits": 1000.0}, Part.COMMITS),
        ({"devices": 100_000_000, "rate": 1e-5, "tables": 10, "commits": 1.0, "trigger": Trigger.AT_ONCE}, Part.MEMORY),
        ({"streams": 20_000, "snodes": 1000, "devices": 10, "catalog": CatalogKind.POSTGRESQL, "commits": 0.1}, Part.AIRFLOW),
        ({"streams": 1000, "delay_s": 1.0}, Part.DRIVER),
        ({"streams": 1000, "snodes": 4000, "devices": 10, "delay_s": 1.0}, Part.CATALOG),
        ({"streams": 300, "snodes": 100, "trigger": Trigger.AT_ONCE, "delay_s": 60.0, "devices": 10}, Part.LOG),
    ],
)
def test_every_part_may_break_first(more: dict[str, object], part: Part) -> None:
    base = Workload(1000, 1.0, 10)
    result = estimate(replace(base, **more), COSTS)  # type: ignore[arg-type]
    assert result.breaks_first is part
    assert not result.is_enough


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("storage", Storage)
def test_more_of_anything_never_takes_less_time(kind: Kind, storage: Storage) -> None:
    base = Workload(1000, 1.0, 20, kind, storage=storage, delay_s=60.0)
    delay_s = estimate(base, COSTS).delay_s
    for more in (replace(base, devices=20_000), replace(base, rate=5.0), replace(base, streams=40), replace(base, request_s=0.1)):
        assert estimate(more, COSTS).delay_s >= delay_s * 0.999


def test_other_costs_give_other_answers(tmp_path: Path) -> None:
    slow = tmp_path / "slow.toml"
    slow.write_text(
        FILE.read_text().replace('machine = "', 'machine = "a slow machine, not ').replace("fixed_s = 0.0", "fixed_s = 0.9")
    )
    arguments = ("--devices", "1000", "--streams", "40")
    assert "a slow machine" in size(*arguments, "--costs", str(slow))[1]
    assert size(*arguments)[1] != size(*arguments, "--costs", str(slow))[1]


def test_the_command_needs_no_simulation_and_no_engine() -> None:
    program = "import sys; from headrace.cli.main import main\ntry: main()\nfinally: print(sorted(sys.modules), file=sys.stderr)"
    command = [sys.executable, "-c", program, "size", "--devices", "10", "--streams", "1"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not {"'simpy'", "'pyspark'", "'numpy'", "'sqlalchemy'"} & set(run.stderr.strip("[]\n").split(", "))

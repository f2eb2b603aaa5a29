"""The DAG files in the documentation are those that Airflow accepts. `tests/airflow` runs those of the page about DAGs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import AIRFLOW_REASON, Block, markdown_pages, parse_blocks

PROGRAM = """
import sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[1])
print(bag.import_errors or sorted(bag.dag_ids))
"""


def dag_files() -> list[Block]:
    return [block for page in markdown_pages() for block in parse_blocks(page) if block.skip_reason == AIRFLOW_REASON]


@pytest.mark.airflow
def test_airflow_accepts_the_dags_of_all_pages(tmp_path: Path) -> None:
    folder = tmp_path / "dags"
    folder.mkdir()
    for number, block in enumerate(dag_files()):
        (folder / f"dag_{number}.py").write_text(block.text)
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, str(folder)],
        env={**os.environ, "AIRFLOW_HOME": str(tmp_path / "airflow"), "HEADRACE_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=True,
    )
    dags = ["boiler_report", "hottest_site", "means_report", "plant_report", "pressure_alert"]
    assert run.stdout.strip().splitlines()[-1] == str(dags), run.stderr

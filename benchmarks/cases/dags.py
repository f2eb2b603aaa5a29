"""Parsing of `dags/` with many streams, or continuous queries, in the catalog, in a process like Airflow's DAG processor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.bench import Bench
from benchmarks.measure import Timings, interleave
from benchmarks.results import Limit, Measurement
from headrace.catalog import Catalog
from headrace.model.continuous_queries import ContinuousQuery, Schedule
from headrace.model.jobs import JobDefinition, JobState
from headrace.model.tables import Column, Database, Table, TableId
from headrace.model.tree_statements import TimeoutPolicy
from headrace.model.types import DataType, TypeKind
from headrace.queries.kind import CONTINUOUS_QUERY
from headrace.settings import Settings, load
from headrace.streams.kind import STREAM

LIMIT_SECONDS: Final = 1.0
# The first parse of a process includes imports, which the DAG processor does once before it forks.
PROGRAM: Final = """
import json, sys, time
from airflow.dag_processing.dagbag import DagBag
sys.path[:0] = sys.argv[1:]
seconds = []
for _ in range(2):
    start = time.perf_counter()
    bag = DagBag(dag_folder=sys.argv[1])
    seconds.append(time.perf_counter() - start)
errors = [*bag.import_errors.values(), *(dag.description for dag in bag.dags.values() if "broken" in dag.tags)]
print(json.dumps({"seconds": seconds, "dags": len(bag.dags), "errors": errors}))
"""
SQL: Final = """
CREATE STREAM s{number:03d} TRIGGER WINDOW_CLOSE FILL_HISTORY 1 INTO s{number:03d}_result
AS SELECT _wstart, COUNT(*) AS cnt, AVG(voltage) AS av FROM meters PARTITION BY tbname INTERVAL(1m)
"""


QUERY: Final = """
CREATE CONTINUOUS QUERY q{number:03d} RESAMPLE EVERY 1h BEGIN
SELECT avg(voltage) INTO root.result.::(av) FROM root.power.* GROUP BY (10m) END
"""
HOUR_MS: Final = 3_600_000


def fill_catalog(settings: Settings, streams: int) -> None:
    """Create a catalog with a number of streams, without any Delta tables."""
    timestamp, integer = DataType(TypeKind.TIMESTAMP), DataType(TypeKind.INT)
    table = Table("power", "meters", (Column("ts", timestamp), Column("voltage", integer)), (Column("groupid", integer),))
    settings.home_path.mkdir(parents=True, exist_ok=True)
    with Catalog.open(settings.catalog) as catalog:
        if not catalog.databases.create(Database("power"), if_not_exists=True):
            return
        catalog.tables.create(table)
        for number in range(streams):
            catalog.jobs.create(build_definition(number))


def build_definition(number: int, prefix: str = "s", created: int = 0) -> JobDefinition:
    name = f"{prefix}{number:03d}"
    return JobDefinition(
        id=f"{prefix}-{number:030d}",
        kind=STREAM,
        database="power",
        name=name,
        sql=SQL.format(number=number),
        dialect="tdengine",
        sources=(TableId("power", "meters"),),
        target=TableId("power", f"{name}_result"),
        created=created,
    )


def fill_with_queries(settings: Settings, queries: int) -> None:
    """Create a catalog with a number of continuous queries."""
    settings.home_path.mkdir(parents=True, exist_ok=True)
    with Catalog.open(settings.catalog) as catalog:
        if not catalog.jobs.all():
            for number in range(queries):
                catalog.jobs.create(build_query(number), state=JobState.RUNNING)


def build_query(number: int) -> JobDefinition:
    schedule = Schedule(HOUR_MS, number, HOUR_MS, 0, TimeoutPolicy.BLOCKED, number)
    return JobDefinition(
        id=f"{number:032x}",
        kind=CONTINUOUS_QUERY,
        database="",
        name=f"q{number:03d}",
        sql=QUERY.format(number=number),
        dialect="iotdb",
        sources=(),
        target=None,
        created=0,
        continuous_query=ContinuousQuery(schedule, "UTC", ("root.power",), ("root.result.::",)),
    )


class Parser:
    """Parses the DAGs in a new process per round; the first parse of each process is recorded separately."""

    def __init__(self, settings: Settings, jobs: int) -> None:
        self.settings = settings
        self.jobs = jobs
        self.first_parses: list[float] = []

    def __call__(self) -> Sequence[float]:
        project = self.settings.project
        folders = [str(project / name) for name in ("dags", "plugins")]
        command = [sys.executable, "-c", PROGRAM, *folders]
        process = subprocess.run(
            command, capture_output=True, text=True, env=self._environment(), cwd=self.settings.home_path, check=False
        )
        if process.returncode != 0:
            raise AssertionError(process.stderr)
        output = json.loads(process.stdout.splitlines()[-1])
        assert not output["errors"], output["errors"]
        assert output["dags"] == self.jobs + 1, f"{output['dags']} DAGs"
        self.first_parses.append(output["seconds"][0])
        return [output["seconds"][1]]

    def _environment(self) -> dict[str, str]:
        airflow = Path(self.settings.home_path) / "airflow"
        project = self.settings.project
        return os.environ | {
            "HEADRACE_HOME": str(self.settings.home_path),
            # Only the DAGs of the jobs and of the snode are counted.
            "HEADRACE_MAINTENANCE_SCHEDULE": "",
            "AIRFLOW_HOME": str(airflow),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(project / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(project / "plugins"),
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
        }


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure a parse of all DAGs."""
    jobs = bench.sizes.dags
    for kind, fill in (("streams", fill_catalog), ("continuous queries", fill_with_queries)):
        settings = load(home=bench.home / "dags" / kind.replace(" ", "-"))
        fill(settings, jobs)
        parser = Parser(settings, jobs)
        name = f"DAG parse of {jobs} {kind}"
        yield Measurement(
            name,
            interleave({name: parser}, bench.sizes.rounds, bench.log)[name],
            limit=Limit(seconds=LIMIT_SECONDS),
            others={"first parse of a process, with imports": Timings(tuple(parser.first_parses[1:]))},
        )

"""Bounds of what Airflow and its tasks leave behind: rows of its database, and logs. Its executor starts this every hour."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from sqlalchemy import Engine

from headrace.runtime.airflow_database import JOBS, LOG, RUNS, TRIES, delete_old_rows, has_known_columns, open_database, run_names
from headrace.runtime.processes import MAX_LOG_BYTES
from headrace.settings import current

logger = logging.getLogger(__name__)

DATABASE_VARIABLE: Final = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"


def clean(database_url: str, logs: Path, before: datetime, max_bytes: int = MAX_LOG_BYTES) -> None:
    with open_database(database_url) as engine:
        is_known = has_known_columns(engine, RUNS, TRIES, LOG, JOBS)
        rows = delete_old_rows(engine, before) if is_known else 0
        folders = delete_logs_of_missing_runs(engine, logs) if is_known else 0
    delete_old_parse_logs(logs, before)
    shortened = sum(shorten(path, max_bytes) for path in logs.rglob("*.log"))
    logger.info("deleted %d rows of Airflow's database and the logs of %d runs, shortened %d logs", rows, folders, shortened)


def delete_logs_of_missing_runs(engine: Engine, logs: Path) -> int:
    names = {(path.parent.name.removeprefix("dag_id="), path.name.removeprefix("run_id=")): path for path in logs.rglob("run_id=*")}
    missing = names.keys() - run_names(engine)
    for name in missing:
        shutil.rmtree(names[name], ignore_errors=True)
    return len(missing)


def delete_old_parse_logs(logs: Path, before: datetime) -> None:
    """Delete the logs of the DAG processor for days before an instant; it has a folder for each day."""
    for folder in logs.rglob("dag_processor/????-??-??"):
        if folder.name < before.date().isoformat():
            shutil.rmtree(folder, ignore_errors=True)


def shorten(log: Path, max_bytes: int) -> bool:
    """Keep the last half of a log that is longer than the maximum. Those who write it append, so they continue at its new end."""
    if log.stat().st_size <= max_bytes:
        return False
    with log.open("r+b") as file:
        file.seek(-max_bytes // 2, os.SEEK_END)
        file.readline()
        kept = file.read()
        file.seek(0)
        file.write(kept)
        file.truncate()
    return True


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    settings = current()
    clean(os.environ[DATABASE_VARIABLE], settings.home_path / "logs", datetime.now(UTC) - timedelta(days=settings.keep_runs_days))

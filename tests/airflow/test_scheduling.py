"""What Airflow's scheduler examines in a loop, beside streams whose runs do not end."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from headrace.runtime.airflow_settings import airflow_environment
from headrace.runtime.login import AirflowHome, ensure_login
from headrace.settings import load

pytestmark = pytest.mark.airflow

STREAMS = 25
DUE = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_backfill_starts_beside_more_streams_than_airflow_examines_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.models import import_all_models
    from airflow.models.backfill import BackfillDagRun
    from airflow.models.base import Base
    from airflow.models.dag import DagModel
    from airflow.models.dagrun import DagRun
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunType
    from sqlalchemy import create_engine
    from sqlalchemy.orm import Session

    ensure_login(AirflowHome(settings := load(home=tmp_path)))
    environment = airflow_environment(settings, {"api": 18_080, "worker_logs": 1, "trigger_logs": 2})
    limit = int(environment["AIRFLOW__SCHEDULER__MAX_DAGRUNS_PER_LOOP_TO_SCHEDULE"])
    assert limit > STREAMS > DagRun.DEFAULT_DAGRUNS_TO_EXAMINE
    import_all_models()  # type: ignore[no-untyped-call]
    engine = create_engine("sqlite://")
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        dag = DagModel(dag_id="d", bundle_name="b", is_paused=False, is_stale=False, fileloc="f")  # type: ignore[no-untyped-call]
        session.add(dag)
        runs = [
            DagRun(dag_id="d", run_id=f"r{number}", run_type=DagRunType.SCHEDULED, state=DagRunState.RUNNING, run_after=DUE)
            for number in range(STREAMS + 1)
        ]
        session.add_all(runs)
        session.flush()
        session.add(BackfillDagRun(backfill_id=1, dag_run_id=runs[0].id, logical_date=DUE, sort_ordinal=1))
        session.flush()
        assert runs[0] not in DagRun.get_running_dag_runs_to_examine(session=session).all()
        monkeypatch.setattr(DagRun, "DEFAULT_DAGRUNS_TO_EXAMINE", limit)
        assert runs[0] in DagRun.get_running_dag_runs_to_examine(session=session).all()
    engine.dispose()

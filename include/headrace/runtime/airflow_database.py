"""What is changed in Airflow's database without Airflow, which takes seconds to import and offers no API for it."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import DateTime, column, create_engine, table, update

JOBS = table("job", column("state"), column("end_date", DateTime(timezone=True)))
"""A row for each process of a component, with its heartbeat."""


def end_lost_components(url: str) -> int:
    """Record that the components that count as running have ended, of which no process may be alive; return how many did.

    A new scheduler then runs interrupted tasks again at once, and a new triggerer takes over their triggers. Otherwise both would
    wait until the last heartbeats are half a minute old, and the scheduler even longer: it looks for such tasks only now and then.
    """
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            ended = {"state": "failed", "end_date": datetime.now(UTC)}
            return connection.execute(update(JOBS).where(JOBS.c.state == "running").values(ended)).rowcount
    finally:
        engine.dispose()

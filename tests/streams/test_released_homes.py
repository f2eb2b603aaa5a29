"""A home of every release opens in this one, and all of its jobs continue."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace
from headrace.model.jobs import DesiredState
from tests.streams.released_homes import NAMES, archives, settings_of, unpack, write


@pytest.mark.parametrize("archive", archives(), ids=lambda path: path.name)
def test_jobs_of_a_released_home_continue(archive: Path, tmp_path: Path) -> None:
    settings = settings_of(unpack(archive, tmp_path))
    with (
        headrace.connect(settings=settings, database="soak") as connection,
        headrace.connect(settings=settings, dialect="iotdb") as trees,
    ):
        records = {record.definition.name: record for record in connection.session.context.catalog.jobs.all()}
        assert set(records) == {*NAMES, "means", "counts"}
        assert records["minute"].desired is DesiredState.PAUSED
        connection.execute("RESUME STREAM minute")
        write(connection, 4, range(8, 10))
        trees.execute("INSERT INTO root.plant.oven(time, temperature) VALUES (121000, 22.5)")
        connection.settle()
        for name in NAMES:
            result = connection.verify(stream=f"soak.{name}")
            assert result.equal, result
            assert result.rows > 0, name
        assert trees.execute("SELECT last_value(points) FROM root.counts").fetchall() == [(3,)]
        assert connection.execute("SELECT count(tenfold(a)) FROM readings_0").fetchall()[0][0] > 0
        with headrace.connect(settings=settings, dialect="iotdb", user="operator", password="Operator-1234") as operator:
            assert operator.execute("SELECT count(temperature) FROM root.plant.oven").fetchall() == [(3,)]


def test_there_is_a_home_of_the_first_release() -> None:
    assert "home-0.1.0.tar.xz" in {path.name for path in archives()}

"""The Spark session of a test process. A folder may need one with other jars, and these are given to a JVM when it starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def running_session(settings: Settings) -> Iterator[SparkSession]:
    """Start a session in place of the one that there is, if any, whose tests are over."""
    from pyspark.sql import SparkSession

    from headrace.storage.spark.session import start_session

    end_session(SparkSession._instantiatedSession)
    session = start_session(settings)
    yield session
    if SparkSession._instantiatedSession is session:
        session.stop()


def end_session(session: SparkSession | None) -> None:
    """End a session with its JVM."""
    from pyspark import SparkContext

    if session is None or SparkContext._gateway is None:
        return
    session.stop()
    gateway = SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None

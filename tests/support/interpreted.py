"""Spark without compiled plans, for tests of a few rows each.

Compiling the plan of a query takes longer than reading a hundred rows without. The folders that check expressions and recorded
answers (`compute`, `conformance`, `verify`) compile the plans of some tests, which are others in each run. Those that start drivers
of their own use Spark as users do.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tests.support.drawing import NOTE, is_drawn

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession

COMPILED: Final = {"spark.sql.codegen.factoryMode": "FALLBACK", "spark.sql.codegen.wholeStage": "true"}
INTERPRETED: Final = {"spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.sql.codegen.wholeStage": "false"}
OPTIONS: Final = {"spark.sql.adaptive.enabled": "false"} | INTERPRETED
COMPILED_SHARE: Final = 5
JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
"""Sessions of tests are short and small: the second compiler of the JVM, and a garbage collector with threads of its own, cost them
more processor time than they save. With one compiler, the JVM reserves little room for compiled code, and would search it for
unused code all the time."""


def shorten_sessions() -> None:
    """Set these options for the JVM of this process, unless options are configured."""
    os.environ.setdefault("HEADRACE_DRIVER_JAVA_OPTIONS", JAVA_OPTIONS)


def interpret_plans() -> None:
    """Set these options for the Spark session of this process, unless options are configured."""
    os.environ.setdefault("HEADRACE_SPARK_OPTIONS", " ".join(f"{name}={value}" for name, value in OPTIONS.items()))


@contextmanager
def drawn_plans(test: pytest.Item, *sessions: SparkSession) -> Iterator[None]:
    """Interpret the plans of a test, but compile those of one of `COMPILED_SHARE` tests. Those of fixtures are compiled."""
    is_compiled = is_drawn(test.nodeid, COMPILED_SHARE)
    test.add_report_section("setup", "plans", f"{'compiled' if is_compiled else 'interpreted'}, {NOTE}")
    for session in sessions:
        set_options(session, COMPILED if is_compiled else INTERPRETED)
    yield
    for session in sessions:
        set_options(session, COMPILED)


def set_options(session: SparkSession, options: Mapping[str, str]) -> None:
    for name, value in options.items():
        session.conf.set(name, value)

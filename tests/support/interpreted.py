"""Spark without compiled plans, for tests of a few rows each.

Compiling the plan of a query takes longer than reading a hundred rows without. The folders that check expressions and recorded
answers (`compute`, `conformance`), and those that start drivers of their own, use Spark as users do.
"""

from __future__ import annotations

import os
from typing import Final

OPTIONS: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
}


def interpret_plans() -> None:
    """Set these options for the Spark session of this process, unless options are configured."""
    os.environ.setdefault("HEADRACE_SPARK_OPTIONS", " ".join(f"{name}={value}" for name, value in OPTIONS.items()))

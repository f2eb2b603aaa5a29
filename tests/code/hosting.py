"""Hosted classes and rows, for tests."""

from __future__ import annotations

import hashlib
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pyarrow as pa

from headrace.code.hosts import HostedClass, HostLimits
from headrace.udf import Parameters, Type

LONG = Parameters([Type.INT64])


def write_code(folder: Path, text: str, class_name: str, limits: HostLimits | None = None) -> HostedClass:
    """Store code in a file, and return a description of one of its classes. Output goes to a log in the folder."""
    path = folder / "functions.py"
    path.write_text(dedent(text))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    limits = replace(limits or HostLimits(), log_folder=str(folder / "logs"))
    return HostedClass(str(path), digest, "functions", class_name, "ada", limits)


def log_of(hosted: HostedClass) -> str:
    """Return what a class has printed."""
    return Path(hosted.limits.log_folder, hosted.log_name).read_text()


def rows_of(*series: list[int], start: int = 0) -> pa.Table:
    """Return rows of some series with values one tick apart; times of all series begin at `start`."""
    rows = [(number, start + time, value) for number, values in enumerate(series) for time, value in enumerate(values)]
    schema = pa.schema([(name, pa.int64()) for name in ("series", "time", "x0")])
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


def run_series(hosted: HostedClass, parameters: Parameters, rows: pa.Table) -> pa.Table:
    """Call a UDTF for series whose rows are all there."""
    with closing(hosted.open_series(parameters)) as stream:
        return stream.process(rows, more=False)

"""What the scripts of `spark_jobs/` call: settings from the environment, a log on standard error, an exit code."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, NoReturn

from headrace.errors import Error
from headrace.history import backfill
from headrace.model.ledger import ChunkState
from headrace.runtime import maintenance
from headrace.runtime.context import Context, open_context
from headrace.runtime.http import RunSql
from headrace.runtime.snode import Exit, run_snode, under_spark_submit
from headrace.settings import current

logger = logging.getLogger("headrace")

PR_SET_PDEATHSIG: Final = 1
LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def snode(name: str | None, sql_runner: Callable[[Context], RunSql], *, fill_histories: bool, wait_s: float | None) -> NoReturn:
    """Run an snode until it ends, and the process with it.

    Args:
        sql_runner: makes, of the context, what `POST /sql` runs statements with.
    """
    code: int = Exit.FAILED
    try:
        with prepared() as context:
            code = run_snode(
                context,
                name or context.settings.snode,
                sql_runner(context),
                fill_histories=fill_histories,
                wait_s=wait_s,
            )
    except Error as error:
        logger.error("%s", error)
    end(code)


def fill_history(job_id: str, run: str, number: int | None) -> int:
    """Compute one chunk of a run, or all that are not done; 0 when they are, 1 when one failed."""
    try:
        with prepared() as context:
            chunks = context.catalog.ledger.chunks(job_id, run)
            wanted = [
                chunk for chunk in chunks if (chunk.state is not ChunkState.DONE if number is None else chunk.number == number)
            ]
            if number is not None and not wanted:
                wanted = [backfill.fill_chunk(context, job_id, run, number)]
            for chunk in wanted:
                done = backfill.fill_chunk(context, job_id, run, chunk.number)
                logger.info("chunk %d of %s, run %s: %s, about %d rows", done.number, job_id, run, done.state, done.rows)
    except Error as error:
        logger.error("%s", error)
        return 1
    return 0


def pending(context: Context, job_id: str, run: str) -> list[int]:
    """Numbers of the chunks of a run that are not done."""
    chunks = context.catalog.ledger.chunks(job_id, run)
    return [chunk.number for chunk in chunks if chunk.state is not ChunkState.DONE]


def maintain(database: str | None, retention_hours: int) -> int:
    """Compact and vacuum; 0, or 1 when the catalog cannot be used."""
    try:
        with prepared() as context:
            for done in maintenance.maintain(context, database, retention_hours=retention_hours):
                logger.info("%s: %d files compacted, %d removed %s", done.table, done.compacted, done.removed, done.kept)
    except Error as error:
        logger.error("%s", error)
        return 1
    return 0


@contextmanager
def prepared() -> Iterator[Context]:
    """A context of the environment's settings, for the length of a job."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=LOG_FORMAT)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    end_with_parent()
    context = open_context(current())
    try:
        yield context
    finally:
        context.tables.close()
        context.catalog.close()


def end_with_parent() -> None:
    """Under spark-submit the JVM is the parent; when it dies, this process is asked to end, which it would not notice else."""
    if sys.platform == "linux" and under_spark_submit():
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def end(code: int) -> NoReturn:
    """End the process now: threads that wait for a batch, or a JVM that is gone, must not keep it."""
    with suppress(OSError):  # the JVM that read what is written here may be gone
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)

"""The entry points of `spark_jobs/`: settings from the environment, a log on standard error, an exit code.

Each imports what it runs: a continuous query has no use for the web server of an snode, whose import takes as long as its work.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NoReturn, ParamSpec

from headrace.context import Context
from headrace.errors import Error
from headrace.model.ledger import ChunkState
from headrace.model.spark_options import Role
from headrace.runtime.context import is_under_spark_submit, open_context
from headrace.runtime.garbage import collect_rarely
from headrace.runtime.openlineage.reporter import open_reports
from headrace.runtime.query_runs import QueryWork
from headrace.settings import current

if TYPE_CHECKING:
    from headrace.runtime.door import Door
    from headrace.runtime.http import SqlService

logger = logging.getLogger("headrace")

P = ParamSpec("P")

PR_SET_PDEATHSIG: Final = 1
LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def snode(
    name: str | None,
    create_service: Callable[[Context, str], tuple[SqlService, Sequence[Door]]],
    *,
    fill_histories: bool,
    wait_s: float | None,
) -> NoReturn:
    """Run an snode until it ends, and end the process with it.

    Its name is that of the settings if it is None; `create_service` returns what `POST /sql` runs statements with, and the doors
    that the settings open. See `run_snode`.
    """
    from headrace.runtime.snode import Exit, run_snode

    code: int = Exit.FAILED
    try:
        with open_process(Role.SNODE) as context:
            snode_name = name or context.settings.snode
            run_sql, doors = create_service(context, snode_name)
            code = run_snode(context, snode_name, run_sql, doors, fill_histories=fill_histories, wait_s=wait_s)
    except Error as error:
        logger.error("%s", error)
    exit_now(code)


def with_exit_code(work: Callable[P, None]) -> Callable[P, int]:
    """Have a function return 0, or 1 after it has logged the error that it raised."""

    @functools.wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> int:
        try:
            work(*args, **kwargs)
        except Error as error:
            logger.error("%s", error)
            return 1
        return 0

    return run


@with_exit_code
def fill_history(job_id: str, run: str, number: int | None) -> None:
    """Compute one chunk of a run, or all that are not done."""
    from headrace.history import backfill

    with open_process() as context:
        chunks = context.catalog.ledger.chunks(job_id, run)
        pending_chunks = [
            chunk for chunk in chunks if (chunk.state is not ChunkState.DONE if number is None else chunk.number == number)
        ]
        if number is not None and not pending_chunks:
            pending_chunks = [backfill.fill_chunk(context, job_id, run, number)]
        for chunk in pending_chunks:
            result = backfill.fill_chunk(context, job_id, run, chunk.number)
            logger.info("chunk %d of %s, run %s: %s, about %d rows", result.number, job_id, run, result.state, result.rows)


@with_exit_code
def transfer_chunk(job_id: str, run: str, number: int) -> None:
    """Transfer one chunk of a pipe's history, or of a range."""
    from headrace.pipes.transfer import transfer_chunk

    with open_process() as context:
        chunk = transfer_chunk(context, job_id, run, number)
        logger.info("chunk %d of pipe %s, run %s: %s, about %d rows", chunk.number, job_id, run, chunk.state, chunk.rows)


@with_exit_code
def execute_query(work: QueryWork) -> None:
    """Execute a continuous query."""
    from headrace.runtime.deferred_pandas import defer_pandas

    defer_pandas()
    from headrace.runtime.query_work import execute_work

    with open_process() as context:
        execute_work(context, work)


@with_exit_code
def maintain(database: str | None, retention_hours: int | None) -> None:
    """Drop tables whose TTL has passed, remove rows of trees that have outlived theirs, and compact and vacuum tables."""
    from headrace.runtime import table_maintenance
    from headrace.runtime.table_removal import drop_expired
    from headrace.trees.expiry import remove_expired

    with open_process() as context:
        for name, rows in remove_expired(context, database).items():
            logger.info("removed %d rows of %s, which have outlived their time to live", rows, name)
        for name in drop_expired(context, database):
            logger.info("dropped %s, whose TTL has passed", name)
        for result in table_maintenance.maintain(context, database, retention_hours=retention_hours):
            logger.info("%s: %d files compacted, %d removed %s", result.table, result.compacted, result.removed, result.kept)


@contextmanager
def open_process(role: Role = Role.TASK) -> Iterator[Context]:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=LOG_FORMAT)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    end_with_parent()
    collect_rarely()
    context = open_context(current(), role=role)
    context = replace(context, reports=open_reports(context))
    try:
        yield context
    finally:
        context.reports.close()
        context.tables.close()
        context.catalog.close()


def end_with_parent() -> None:
    """Have this process terminated when its parent dies. Under spark-submit the parent is the JVM."""
    if sys.platform == "linux" and is_under_spark_submit():
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def exit_now(code: int) -> NoReturn:
    """End the process now: threads that wait for a micro-batch, or for a dead JVM, must not keep it alive."""
    with suppress(OSError):  # the JVM at the other end of these pipes may be gone
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)

"""Queries run by a live snode, whose Spark session is warm; starting one here would take seconds."""

from __future__ import annotations

from headrace.context import Context
from headrace.runtime.living_snodes import living_endpoints
from headrace.runtime.snode_client import ARROW, SnodeEndpoint, send_statement
from headrace.service.results import Result


def query_living_snode(context: Context, text: str, dialect: str, database: str | None, user: str | None = None) -> Result | None:
    """Have an snode that is alive run a query; None if this process should, for example since it has a Spark session of its own.

    It has the rights of `user`; all rights if that is None.
    """
    is_snode = context.call_in_snode is None  # it may have no Spark yet, and would ask itself
    if is_snode or getattr(context.spark, "started", True):
        return None
    results = (query_snode(snode, text, dialect, database, user) for snode in living_endpoints(context))
    return next((result for result in results if result is not None), None)


def query_snode(snode: SnodeEndpoint, text: str, dialect: str, database: str | None, user: str | None = None) -> Result | None:
    """Have the snode run a query.

    None if it cannot be reached from here, or if the process at its address is not the snode that the catalog names.

    Raises:
        Error: The snode raised it; `OperationalError` if it died before it responded.
    """
    body = {"sql": text, "dialect": dialect, "database": database, "user": user}
    response = send_statement(snode, body, ARROW)
    if response is None:
        return None
    import pyarrow as pa

    content_type, content = response
    return Result(pa.ipc.open_stream(content).read_all() if content_type == ARROW else None)

"""Python code over Arrow arrays that Spark SQL calls by name."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

Apply = Callable[..., "pa.Array"]

_calls: dict[str, tuple[Apply, str]] = {}
_sessions: WeakSet[SparkSession] = WeakSet()
_lock = threading.Lock()


def define(name: str, apply: Apply, type_: str) -> None:
    """Let Spark SQL call Python code, in all sessions.

    Args:
        name: Calls of the same name have the same code.
        apply: Returns an array for arrays of the arguments. It is sent to Spark's tasks, so it must be picklable.
        type_: The Spark type of the values.
    """
    with _lock:
        if name in _calls:
            return
        _calls[name] = (apply, type_)
        for session in _sessions:
            register(session, name)


def define_in(session: SparkSession) -> None:
    """Define all code in a session, also what is defined later."""
    with _lock:
        _sessions.add(session)
        for name in _calls:
            register(session, name)


def register(session: SparkSession, name: str) -> None:
    from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf

    apply, type_ = _calls[name]
    with warnings.catch_warnings():
        # Spark prefers type hints to the kind, but the code takes any number of arguments, for which it knows no hints.
        warnings.simplefilter("ignore", UserWarning)
        session.udf.register(name, arrow_udf(apply, type_, ArrowUDFType.SCALAR))

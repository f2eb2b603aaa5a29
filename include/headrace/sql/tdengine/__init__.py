"""The TDengine dialect."""

from headrace.sql.tdengine.dialect import TDengine

__all__ = ["TDengine"]

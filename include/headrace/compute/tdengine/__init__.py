"""The TDengine language: its functions, operators, conversions and window clauses."""

from headrace.compute.tdengine.language import TDENGINE

__all__ = ["TDENGINE"]

"""All aggregate functions by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.compute.functions import TABLE, AggregateFunction
from headrace.compute.lists import LIST_TABLE

AGGREGATES: Final[Mapping[str, AggregateFunction]] = {function.name: function for function in (*TABLE, *LIST_TABLE)}

"""Streams: a query over a source table whose result is kept up to date in a target table.

`define` checks a statement and gives a `StreamPlan`; `lifecycle` starts, activates, skips and forgets; a `Feed` reads the
changes of one source table and hands them to the stream's step; `Feeds` holds a feed for every source.
"""

from headrace.streams.context import Context
from headrace.streams.define import StreamPlan, catalog_scope, define, plan_of
from headrace.streams.feed import Feed, Feeds
from headrace.streams.lifecycle import activate, begin, forget, prepare_target, skip
from headrace.streams.restore import rebuild
from headrace.streams.state import State
from headrace.streams.target import Target

__all__ = [
    "Context",
    "Feed",
    "Feeds",
    "State",
    "StreamPlan",
    "Target",
    "activate",
    "begin",
    "catalog_scope",
    "define",
    "forget",
    "plan_of",
    "prepare_target",
    "rebuild",
    "skip",
]

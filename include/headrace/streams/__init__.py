"""Streams: a query over a source table whose result is kept up to date in a target table.

`define` checks a statement and gives a `StreamPlan`; `lifecycle` starts, activates, skips and forgets; a `feed.Feed` reads the
changes of one source table and hands them to the stream's step; `feed.Feeds` holds a feed for every source. Nothing is imported
here: who only needs the `context` shall not wait for the rest.
"""

"""Streams: a query over a source table whose result is kept up to date in a target table.

`definition.define` checks a statement and returns a `StreamPlan`; `lifecycle` creates, activates, skips and deletes streams. A
`sources.poller.SourcePoller` reads the changes of one source table; for each stream a `runner.Runner` has a processor compute a
micro-batch and a sink commit it. This module imports nothing, so that using `context` alone does not load the rest.
"""

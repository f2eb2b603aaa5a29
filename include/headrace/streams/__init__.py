"""Streams: a query over a source table whose result is kept up to date in a target table.

`definition.define` checks a statement and gives a `StreamPlan`; `lifecycle` creates, activates, skips and forgets streams. A
`sources.poller.SourcePoller` reads the changes of one source table; a `runner.Runner` has a processor compute a micro-batch, and a
sink commit it. Nothing is imported here: who only needs the `context` shall not wait for the rest.
"""

"""Sinks: where the results of micro-batches are committed."""

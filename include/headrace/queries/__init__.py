"""Queries over stored rows, and continuous queries: their ranges, their INTO, and their executions."""

"""Backfills: chunks of event time, their evaluation, and writing their results."""

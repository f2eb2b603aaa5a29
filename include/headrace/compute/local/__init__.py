"""Evaluation in this process with Arrow, for plans whose expressions it supports; the results are those of Spark."""

"""Measurements of Headrace, side by side with jobs that one would write by hand: `python -m benchmarks --help`."""

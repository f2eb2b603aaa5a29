"""Benchmarks of Headrace against equivalent hand-written jobs: `python -m benchmarks --help`."""

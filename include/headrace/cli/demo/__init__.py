"""`headrace demo`: the whole system on real readings, step by step."""

from headrace.cli.demo.runner import run_demo

__all__ = ["run_demo"]

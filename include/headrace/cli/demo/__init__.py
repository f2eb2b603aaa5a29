"""`headrace demo`: the whole path on real readings, told step by step."""

from headrace.cli.demo.performance import perform

__all__ = ["perform"]

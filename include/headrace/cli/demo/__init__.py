"""`headrace demo`: the whole path on real readings, told step by step."""

from headrace.cli.demo.story import Story

__all__ = ["Story"]

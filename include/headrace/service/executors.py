"""The function that applies a stage, with all executors registered."""

from headrace.service import executor
from headrace.service.apply import apply

__all__ = ["apply", "executor"]

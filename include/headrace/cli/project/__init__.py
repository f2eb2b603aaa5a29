"""`headrace new`, `plan`, `apply` and `test`: a folder of definitions, compared with the catalog, applied to it, and tested."""

from headrace.cli.project.command import apply, plan
from headrace.cli.project.layout import new
from headrace.cli.project.testing import test

__all__ = ["apply", "new", "plan", "test"]

"""Spark for snippets, each of which reads a few rows."""

from __future__ import annotations

from tests.support.interpreted import interpret_plans

interpret_plans()

"""Statements about plugins of pipes."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.model.spans import Span
from headrace.model.tree_statements import TreeStatement


@dataclass(frozen=True, slots=True)
class CreatePipePlugin(TreeStatement):
    """`CREATE PIPEPLUGIN [IF NOT EXISTS] name AS 'class' [USING URI 'uri']`."""

    name: str
    class_name: str
    uri: str | None = None
    if_not_exists: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class DropPipePlugin(TreeStatement):
    """`DROP PIPEPLUGIN [IF EXISTS] name`."""

    name: str
    if_exists: bool = False

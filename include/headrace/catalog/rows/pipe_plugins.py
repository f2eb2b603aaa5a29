"""Plugins of pipes that users have registered."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, BigInteger, Column, Named, String, Table, TypedColumns

from headrace.catalog.rows.metadata import METADATA, NAME


class PipePluginColumns(TypedColumns):
    """Columns of `pipe_plugins`, which belong to no database."""

    name: Named[str] = Column(NAME, primary_key=True)
    stage: Named[str]
    class_name: Named[str] = Column(String)
    artifact: Named[dict[str, Any]] = Column(JSON)
    secrets: Named[list[str]] = Column(JSON)
    owner: Named[str] = Column(NAME)
    created: Named[int] = Column(BigInteger)


PIPE_PLUGINS = Table("pipe_plugins", METADATA, PipePluginColumns)

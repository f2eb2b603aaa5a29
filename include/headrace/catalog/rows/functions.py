"""Functions that users have registered, by language, and plugins of pipes."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, BigInteger, Boolean, Column, Integer, Named, String, Table, Text, TypedColumns

from headrace.catalog.rows.metadata import METADATA, NAME


class FunctionColumns(TypedColumns):
    """Columns of `functions`, which belong to no database."""

    dialect: Named[str] = Column(String, primary_key=True)
    name: Named[str] = Column(NAME, primary_key=True)
    class_name: Named[str] = Column(String)
    kind: Named[str]
    artifact: Named[dict[str, Any] | None] = Column(JSON(none_as_null=True), nullable=True)
    vectorized: Named[bool] = Column(Boolean)
    owner: Named[str] = Column(NAME)
    created: Named[int] = Column(BigInteger)
    output_type: Named[str]
    buffer_size: Named[int] = Column(Integer)
    comment: Named[str] = Column(Text)
    version: Named[int] = Column(Integer)


FUNCTIONS = Table("functions", METADATA, FunctionColumns)


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

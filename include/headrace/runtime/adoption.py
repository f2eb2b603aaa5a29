"""Subtables that another writer has made: rows of a name that neither the catalog nor the tags know."""

from __future__ import annotations

import logging

from headrace.errors import Error
from headrace.model.tables import TBNAME, Table, TableKind
from headrace.runtime.context import Context

logger = logging.getLogger(__name__)


def adopt_subtables(context: Context, table: Table) -> list[str]:
    """Register every subtable that has rows but no tags, so that statements can name it; returns the names.

    Their tags are NULL until `INSERT INTO … USING … TAGS` or `ALTER TABLE … SET TAG` gives them.
    """
    if table.kind is not TableKind.SUPER:
        return []
    tagged = set(context.tables.read_tags(table)[TBNAME].to_pylist())
    names = [name for name in context.tables.read_subtables(table)[TBNAME].to_pylist() if name not in tagged]
    return [name for name in names if _adopted(context, table, name)]


def _adopted(context: Context, table: Table, name: str) -> bool:
    try:
        context.catalog.subtables.add(table.database, table.name, [name])
    except Error as error:
        logger.error("rows of %s in %s.%s have no subtable: %s", name, table.database, table.name, error.message)
        return False
    logger.warning("%s.%s has no tags: give it some with ALTER TABLE %s SET TAG", table.database, name, name)
    return True

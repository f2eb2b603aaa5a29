"""Subtables that another writer created: rows of a name that is in neither the catalog nor the tags."""

from __future__ import annotations

import logging

from headrace.context import Context
from headrace.errors import Error
from headrace.model.tables import TBNAME, Table, TableKind

logger = logging.getLogger(__name__)


def adopt_subtables(context: Context, table: Table) -> list[str]:
    """Register all subtables that have rows but no tags, so that statements can name them; return their names.

    Their tags are NULL until `INSERT INTO … USING … TAGS` or `ALTER TABLE … SET TAG` sets them.
    """
    if table.kind is not TableKind.SUPER:
        return []
    tagged = set(context.tables.tags.read(table)[TBNAME].to_pylist())
    names = [name for name in context.tables.tags.of_subtables(table)[TBNAME].to_pylist() if name not in tagged]
    return [name for name in names if _try_adopt(context, table, name)]


def _try_adopt(context: Context, table: Table, name: str) -> bool:
    try:
        context.catalog.subtables.add(table.database, table.name, [name])
    except Error as error:
        logger.error("skipping rows of %s in %s.%s, which have no subtable: %s", name, table.database, table.name, error.message)
        return False
    logger.warning("%s.%s has no tags: set them with ALTER TABLE %s SET TAG", table.database, name, name)
    return True

"""The plugins of pipes that users have registered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import delete, select

from headrace.catalog.rows.functions import PIPE_PLUGINS
from headrace.catalog.rules import refuse_pipes_using
from headrace.catalog.store import Repository, insert
from headrace.errors import Error, ExistsError, NotFoundError
from headrace.model.conversion import to_row
from headrace.model.pipe_plugins import RegisteredPipePlugin
from headrace.model.spelling import did_you_mean
from headrace.model.tree_status import TreeStatus

BY_NAME: Final = select(PIPE_PLUGINS).order_by(PIPE_PLUGINS.c.name)


class PipePlugins(Repository):
    """Registered plugins by name, in upper case."""

    def all(self) -> list[RegisteredPipePlugin]:
        """Return every plugin by name."""
        return self._all(RegisteredPipePlugin, BY_NAME)

    def find(self, name: str) -> RegisteredPipePlugin | None:
        """Return the plugin of a name in any case, or None."""
        return next(iter(self._all(RegisteredPipePlugin, select(PIPE_PLUGINS).where(PIPE_PLUGINS.c.name == name.upper()))), None)

    def get(self, name: str) -> RegisteredPipePlugin:
        """Return the plugin of a name in any case; raise `NotFoundError` if there is none."""
        plugin = self.find(name)
        if plugin is None:
            raise missing_plugin(name, [row["name"] for row in self._rows(select(PIPE_PLUGINS.c.name))])
        return plugin

    def artifacts(self) -> set[str]:
        """Return the hashes of the artifacts of all plugins."""
        return {row["artifact"]["sha256"] for row in self._rows(select(PIPE_PLUGINS.c.artifact))}

    def create(self, plugin: RegisteredPipePlugin) -> None:
        """Record a plugin; raise `ExistsError` if the name is taken."""
        with self._store.write() as connection:
            row = insert(connection, PIPE_PLUGINS).values(to_row(plugin)).on_conflict_do_nothing().returning(PIPE_PLUGINS.c.name)
            if connection.scalar(row) is None:
                raise plugin_exists(plugin.name)

    def drop(self, name: str) -> None:
        """Remove the plugin of a name in any case.

        Raises:
            NotFoundError: There is none.
            IntegrityError: A pipe uses it.
        """
        with self._store.write() as connection:
            dropped = delete(PIPE_PLUGINS).where(PIPE_PLUGINS.c.name == name.upper()).returning(PIPE_PLUGINS.c.name)
            if connection.scalar(dropped) is None:
                raise missing_plugin(name, connection.scalars(select(PIPE_PLUGINS.c.name)).all())
            refuse_pipes_using(connection, name.upper())


def plugin_exists(name: str) -> Error:
    """Return the error for a plugin whose name is taken."""
    message = f"Failed to create PipePlugin [{name.upper()}], the same name PipePlugin has been created"
    error = ExistsError(message, hint="use IF NOT EXISTS or another name, or drop it")
    return error.with_status(TreeStatus.CREATE_PIPE_PLUGIN_ERROR)


def missing_plugin(name: str, names: Sequence[str]) -> Error:
    """Return the error for a plugin that does not exist."""
    message = f"Failed to drop PipePlugin [{name}], this PipePlugin has not been created"
    hint = did_you_mean(name.upper(), names, "SHOW PIPEPLUGINS lists what there is")
    return NotFoundError(message, hint=hint).with_status(TreeStatus.DROP_PIPE_PLUGIN_ERROR)

"""The stages of a recorded pipe, with their plugins, and their attributes in clear."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.context import Context
from headrace.model.jobs import JobDefinition
from headrace.model.pipes import PipeStage
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.lookup import find_plugin, plugin_name
from headrace.pipes.plugins import PipeContext, Plugin
from headrace.secrets import resolve


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage: its plugin, and its attributes with passwords in clear."""

    plugin: Plugin
    attributes: PipeAttributes

    def create(self, pipe: PipeContext) -> Any:
        """Create the source, processor or sink."""
        return self.plugin.create()(self.attributes, pipe)


def stage_of(context: Context, definition: JobDefinition, stage: PipeStage) -> Stage:
    """Return a stage of a pipe.

    Raises:
        PermissionDeniedError: Its owner may not use one of its secrets.
        ProgrammingError: Its plugin does not exist.
        ConfigurationError: A password cannot be decrypted here.
    """
    typed = definition.stages.stage(stage)
    plugin = find_plugin(context, stage, plugin_name(stage, typed))
    permissions = context.catalog.access.owner_permissions(definition.owner)
    return Stage(plugin, PipeAttributes(resolve(typed, plugin.secrets, context.settings, permissions)))

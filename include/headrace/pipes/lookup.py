"""Which plugin a stage of a pipe names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from headrace import secrets
from headrace.errors import Error, NotSupportedError
from headrace.model.pipes import DEFAULT_PLUGINS, OTHER_NAMES, PipeStage
from headrace.model.spelling import did_you_mean
from headrace.model.tree_status import TreeStatus
from headrace.pipes.attributes import PipeAttributes, pipe_error
from headrace.pipes.builtin import BY_NAME, PLUGINS, REJECTED
from headrace.pipes.registered import registered_plugin

if TYPE_CHECKING:
    from headrace.context import Context
    from headrace.pipes.plugins import Plugin

REJECTED_HINTS: Final = {plugin.name: plugin.hint for plugin in REJECTED}


def plugin_name(stage: PipeStage, attributes: Mapping[str, str]) -> str:
    """Return the name of the plugin that the attributes of a stage name, as it was typed, or the default."""
    return PipeAttributes(attributes).text(OTHER_NAMES[stage], stage.value, default=DEFAULT_PLUGINS[stage])


def find_plugin(context: Context | None, stage: PipeStage, name: str) -> Plugin:
    """Return the plugin of a name, in any case, for a stage. Without a context, only built-in plugins are found.

    Raises:
        ProgrammingError: There is none.
        NotSupportedError: It is one of IoTDB's that does not exist here.
    """
    key = name.lower()
    if key in REJECTED_HINTS:
        error = NotSupportedError(f"PipePlugin {name.upper()} is not supported.", hint=REJECTED_HINTS[key])
        raise error.with_status(TreeStatus.PIPE_ERROR)
    plugin = BY_NAME.get(key)
    if plugin is None and context is not None:
        plugin = registered_plugin(context, stage, name)
    if plugin is None or plugin.stage is not stage:
        raise _not_registered(stage, name)
    return plugin


def stage_plugin(context: Context | None, stage: PipeStage, attributes: Mapping[str, str]) -> Plugin:
    """Return the plugin of a stage with some attributes; raise as `find_plugin` does."""
    return find_plugin(context, stage, plugin_name(stage, attributes))


def shown_attributes(stage: PipeStage, attributes: Mapping[str, str], context: Context | None = None) -> dict[str, str]:
    """Return the attributes of a stage as they are shown, without passwords."""
    return secrets.hide(attributes, secret_keys(stage, attributes, context))


def secret_keys(stage: PipeStage, attributes: Mapping[str, str], context: Context | None = None) -> frozenset[str]:
    """Return the keys of a stage whose values are passwords.

    Those of plugins that are not built in are looked up in the catalog of a context. Without it, or without the plugin, there are
    none, but stored passwords are encrypted, and recognized by that.
    """
    try:
        return stage_plugin(context, stage, attributes).secrets
    except Error:
        return frozenset()


def _not_registered(stage: PipeStage, name: str) -> Error:
    names = sorted(plugin.name for plugin in PLUGINS if plugin.stage is stage)
    hint = did_you_mean(name.lower(), names, f"a {stage} is one of {', '.join(names)}")
    message = f"Failed to reflect PipePlugin instance, because PipePlugin {name.upper()} has not been registered."
    return pipe_error(message, hint=hint)

"""Which plugin a stage of a pipe names."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from headrace import secrets
from headrace.context import Context
from headrace.errors import Error, NotSupportedError
from headrace.model.pipe_plugins import RegisteredPipePlugin
from headrace.model.pipes import DEFAULT_PLUGINS, OTHER_NAMES, PipeStage
from headrace.model.spelling import did_you_mean
from headrace.model.tree_status import TreeStatus
from headrace.pipes.attributes import PipeAttributes, pipe_error
from headrace.pipes.builtin import BY_NAME, PLUGINS, REJECTED
from headrace.pipes.plugins import PipeContext, Plugin

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


def registered_plugin(context: Context, stage: PipeStage, name: str) -> Plugin | None:
    """Return the registered plugin of a name, in any case, for a stage; None if there is none."""
    registered = context.catalog.pipe_plugins.find(name)
    if registered is None or registered.stage is not stage:
        return None
    return Plugin(
        name=registered.name.lower(),
        stage=stage,
        class_name=registered.class_name,
        validate=lambda: partial(validate, registered, context),
        create=lambda: partial(create, registered),
        secrets=frozenset(registered.secrets),
        acts_as_owner=True,
    )


def validate(registered: RegisteredPipePlugin, context: Context, attributes: PipeAttributes) -> None:
    """Let a plugin check its attributes in a code host.

    Raises:
        ProgrammingError: It does not accept them.
        UserCodeError: It fails otherwise, takes too long, or ends its process.
    """
    from headrace.code.pipes import PluginInstance
    from headrace.pipe import PipeRuntime

    instance = PluginInstance.of(registered, context.settings, dict(attributes), PipeRuntime(""))
    invalid = instance.validate()
    if invalid is not None:
        raise pipe_error(invalid, hint=f"see what {registered.class_name} expects")


def create(registered: RegisteredPipePlugin, attributes: PipeAttributes, pipe: PipeContext) -> Any:
    """Create the source, processor or sink of a pipe, whose instance starts when it is used."""
    from headrace.code.pipes import PluginInstance
    from headrace.pipe import PipeRuntime
    from headrace.pipes.hosted.processor import HostedProcessor
    from headrace.pipes.hosted.sink import HostedSink
    from headrace.pipes.hosted.source import HostedSource

    runtime, settings = PipeRuntime(pipe.name, pipe.pipe_id, pipe.owner), pipe.context.settings
    # A process of its own.
    instance = PluginInstance.of(registered, settings, dict(attributes), runtime, user=uuid.uuid4().hex)
    match registered.stage:
        case PipeStage.SOURCE:
            return HostedSource.of(instance, pipe)
        case PipeStage.PROCESSOR:
            return HostedProcessor(instance)
        case PipeStage.SINK:
            return HostedSink(instance)

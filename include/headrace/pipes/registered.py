"""The plugins that users have registered, as plugins of pipes."""

from __future__ import annotations

from functools import partial
from typing import Any

from headrace.context import Context
from headrace.model.pipe_plugins import RegisteredPipePlugin
from headrace.model.pipes import PipeStage
from headrace.pipes.attributes import PipeAttributes, pipe_error
from headrace.pipes.plugins import PipeContext, Plugin


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
    from headrace.pipes.hosted.instances import instance_in
    from headrace.pipes.hosted.processor import HostedProcessor
    from headrace.pipes.hosted.sink import HostedSink
    from headrace.pipes.hosted.source import HostedSource

    instance = instance_in(pipe, registered, dict(attributes))
    match registered.stage:
        case PipeStage.SOURCE:
            return HostedSource.of(instance, pipe)
        case PipeStage.PROCESSOR:
            return HostedProcessor(instance)
        case PipeStage.SINK:
            return HostedSink(instance)

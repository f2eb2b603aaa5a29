"""Instances of plugins of users for the stages of a pipe."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from headrace.code.pipes import PluginInstance
from headrace.model.pipe_plugins import RegisteredPipePlugin
from headrace.pipe import PipeRuntime
from headrace.pipes.plugins import PipeContext


def instance_in(pipe: PipeContext, plugin: RegisteredPipePlugin, attributes: Mapping[str, str]) -> PluginInstance:
    """Return an instance for a stage of a pipe, with a process of its own, which has not been started."""
    runtime = PipeRuntime(pipe.name, pipe.pipe_id, pipe.owner)
    return PluginInstance.of(plugin, pipe.context.settings, attributes, runtime, user=uuid.uuid4().hex)

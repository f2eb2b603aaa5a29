"""What pipes need: USE_PIPE, and what their plugins say of their attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace import secrets
from headrace.model.access import Privilege
from headrace.model.jobs import JobDefinition
from headrace.model.needs import Needs
from headrace.model.pipes import PipeStage
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.builtin import BY_NAME
from headrace.pipes.lookup import plugin_name

if TYPE_CHECKING:
    from headrace.catalog import Catalog


def pipe_needs(catalog: Catalog, job: JobDefinition) -> Needs:
    """Return what a pipe needs."""
    return sum((stage_needs(catalog, job, stage) for stage in PipeStage), Needs(privileges=(Privilege.USE_PIPE,)))


def stage_needs(catalog: Catalog, job: JobDefinition, stage: PipeStage) -> Needs:
    """Return what a stage of a pipe needs."""
    attributes = job.stages.stage(stage)
    name = plugin_name(stage, attributes)
    plugin = BY_NAME.get(name.lower())
    if plugin is None:
        registered = catalog.pipe_plugins.find(name)
        keys = frozenset[str]() if registered is None else frozenset(registered.secrets)
        return Needs(code=(name.upper(),), secrets=secrets.references(attributes, keys))
    own = PipeAttributes(attributes)
    declared = Needs() if plugin.needs is None else plugin.needs()(own)
    endpoints = () if plugin.endpoints is None else plugin.endpoints()(own)
    return declared + Needs(endpoints=endpoints, secrets=secrets.references(attributes, plugin.secrets))

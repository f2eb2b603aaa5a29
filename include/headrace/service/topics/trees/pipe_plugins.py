"""Plugins of pipes: create and drop them, and what there is to show of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.catalog.pipe_plugins import plugin_exists
from headrace.context import Context
from headrace.errors import Error, InvalidCodeError, ProgrammingError, UserCodeError
from headrace.model.failpoints import failpoint
from headrace.model.pipe_plugin_statements import CreatePipePlugin, DropPipePlugin
from headrace.model.pipe_plugins import RegisteredPipePlugin
from headrace.model.tree_statements import TreeShow
from headrace.model.tree_status import TreeStatus
from headrace.pipes.builtin import BY_NAME, PLUGINS
from headrace.service.results import STRING, CatalogRows, ColumnOf, read_columns
from headrace.service.rights import Action, Right, pipe_plugin_securable
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.service.topics.code_location import CodeLocation, as_hint

if TYPE_CHECKING:
    from headrace.code.sources import CodeSource
    from headrace.egress import EgressPolicy

CODE: Final = CodeLocation(
    "pipe",
    "PipePlugin{name}'",  # IoTDB omits the first quote, too
    invalid_uri=TreeStatus.PIPE_PLUGIN_DOWNLOAD_ERROR,
    unreadable=TreeStatus.PIPE_PLUGIN_DOWNLOAD_ERROR,
    invalid_class=TreeStatus.PIPE_PLUGIN_LOAD_CLASS_ERROR,
)
NO_URI: Final = "Failed to create pipe plugin, because the URI is empty."


def plan_create_pipe_plugin(statement: CreatePipePlugin, session: PlanningContext) -> list[Stage]:
    """Plan CREATE PIPEPLUGIN. The class is loaded once the user's rights have been checked."""
    source = find_code(statement, session.context.egress)
    name = statement.name.upper()
    if name.lower() in BY_NAME or session.context.catalog.pipe_plugins.find(name) is not None:
        if not statement.if_not_exists:
            raise plugin_exists(name)
        return [plugin_stage(Action.CREATE, name, f"keep pipe plugin {name}, which exists", nothing)]
    line = f"create pipe plugin {name}: {statement.class_name} in {source.location}, loaded once in a code host"
    return [plugin_stage(Action.CREATE, name, line, lambda session: create_plugin(statement, source, session))]


def plan_drop_pipe_plugin(statement: DropPipePlugin, session: PlanningContext) -> list[Stage]:
    """Plan DROP PIPEPLUGIN."""
    name = statement.name.upper()
    if name.lower() in BY_NAME:
        message = f"Failed to drop PipePlugin [{statement.name}], the PipePlugin is a built-in PipePlugin"
        error = ProgrammingError(message, hint="drop plugins that you have created")
        raise error.with_status(TreeStatus.DROP_PIPE_PLUGIN_ERROR)
    if statement.if_exists and session.context.catalog.pipe_plugins.find(name) is None:
        return [plugin_stage(Action.DROP, name, f"nothing to drop: pipe plugin {name} does not exist", nothing)]
    plugin = session.context.catalog.pipe_plugins.get(statement.name)
    return [plugin_stage(Action.DROP, name, f"drop pipe plugin {name}", lambda session: drop_plugin(plugin, session))]


def plugin_stage(action: Action, name: str, line: str, apply: Callable[[SessionState], None]) -> Stage:
    """Return a stage with a right on a plugin."""
    return Stage((Right(action, pipe_plugin_securable(name)),), lambda: [line], apply)


def nothing(_: SessionState) -> None:
    """Change nothing."""


def create_plugin(statement: CreatePipePlugin, source: CodeSource, session: SessionState) -> None:
    """Store the code of a plugin, load its class in a code host, and record it. A failure leaves nothing."""
    plugin = load_plugin(statement, source, session)
    try:
        session.context.catalog.pipe_plugins.create(plugin)
    except Error:
        if not statement.if_not_exists or session.context.catalog.pipe_plugins.find(plugin.name) is None:
            raise
    failpoint("pipe_plugins.recorded")


def load_plugin(statement: CreatePipePlugin, source: CodeSource, session: SessionState) -> RegisteredPipePlugin:
    """Store the code of a plugin, load its class in a code host, and return what is to be registered."""
    from headrace.code.pipes import describe_plugin
    from headrace.code.registration import store_code

    context = session.context
    content = CODE.read(statement, source)
    artifact = store_code(source.name, content, context.catalog, context.settings)
    try:
        description = describe_plugin(artifact, statement.class_name, session.user, statement.name, context.settings)
    except (InvalidCodeError, UserCodeError) as error:
        raise CODE.load_error(statement, as_hint(error)) from error
    failpoint("code.described")
    return RegisteredPipePlugin(
        statement.name.upper(),
        description.stage,
        statement.class_name,
        artifact,
        description.secrets,
        owner=session.record_owner(),
        created=context.clock.now(),
    )


def drop_plugin(plugin: RegisteredPipePlugin, session: SessionState) -> None:
    """Remove a plugin that no pipe uses. Its code stays for another day."""
    from headrace.code.registration import collect_artifacts, keep_for_now

    catalog, settings = session.context.catalog, session.context.settings
    keep_for_now(plugin.artifact, settings)
    catalog.pipe_plugins.drop(plugin.name)
    failpoint("pipe_plugins.dropped")
    collect_artifacts(catalog, settings)


def find_code(statement: CreatePipePlugin, egress: EgressPolicy) -> CodeSource:
    """Return where the code is, or raise the error of the statement."""
    if statement.uri == "":
        error = ProgrammingError(NO_URI, hint="write one, or leave USING URI out", span=statement.span)
        raise error.with_status(TreeStatus.PIPE_PLUGIN_DOWNLOAD_ERROR)
    return CODE.find(statement, egress)


class ShownPlugin(NamedTuple):
    """A line of SHOW PIPEPLUGINS; `file` is empty for a built-in plugin."""

    name: str
    type: str
    class_name: str
    file: str = ""


COLUMNS: Final[dict[str, ColumnOf[ShownPlugin]]] = {
    "PluginName": (STRING, lambda one: one.name),
    "PluginType": (STRING, lambda one: one.type),
    "ClassName": (STRING, lambda one: one.class_name),
    "PluginJar": (STRING, lambda one: one.file),
}


def show_pipe_plugins(_: TreeShow, context: Context) -> CatalogRows:
    """Return the plugins by name, without those built-in ones that IoTDB does not list either."""
    shown = [ShownPlugin(one.name.upper(), "Builtin", one.class_name) for one in PLUGINS if one.is_listed]
    registered = context.catalog.pipe_plugins.all()
    shown += [ShownPlugin(one.name, "External", one.class_name, one.artifact.name) for one in registered]
    return read_columns(COLUMNS, sorted(shown))

"""What is checked of a pipe before it is recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from headrace import secrets
from headrace.errors import ConfigurationError, Error
from headrace.model.pipes import OTHER_NAMES, RESERVED_PREFIX, PipeStage, without_prefix
from headrace.model.tree_status import TreeStatus
from headrace.pipes.attributes import PipeAttributes, pipe_error
from headrace.pipes.builtin import PROCESSORS, TABLE_SOURCE, WRITE_BACK_SINK
from headrace.pipes.lookup import stage_plugin
from headrace.pipes.plugins import PipeContext

if TYPE_CHECKING:
    from headrace.context import Context
    from headrace.pipes.plugins import Plugin

Stages = Mapping[PipeStage, Mapping[str, str]]
RENAMING: Final = {"aggregate-processor": ("output.database",), "count-point-processor": ("output-series", "output.series")}
"""Built-in processors that write their results to other devices, and the attributes that name these."""
PARTICIPLES: Final = {"create": "created", "alter": "altered", "start": "started", "stop": "stopped", "drop": "dropped"}


def check_name(name: str, verb: str) -> None:
    """Raise `ProgrammingError` for a name that is reserved."""
    if name.startswith(RESERVED_PREFIX):
        what = f'pipe name starting with "{RESERVED_PREFIX}" are not allowed to be {PARTICIPLES[verb]}.'
        raise pipe_error(f"Failed to {verb} pipe {name}, {what}", hint="choose another name")


def check_stages(context: Context, stages: Stages) -> dict[PipeStage, Plugin]:
    """Return the plugins of the stages, in the order of the stages, of which each has to accept its attributes.

    Raises:
        ProgrammingError: A plugin does not exist, an attribute is not valid, or the sink takes nothing that the source has.
        NotSupportedError: A plugin is one of IoTDB's that does not exist here.
    """
    plugins = {stage: check_stage(context, stage, stages[stage]) for stage in PipeStage}
    check_writable(plugins, stages[PipeStage.PROCESSOR])
    return plugins


def check_writable(plugins: Mapping[PipeStage, Plugin], attributes: Mapping[str, str]) -> None:
    """Raise `ProgrammingError` for rows of tables that go back under their names, which only the TDengine dialect writes."""
    names = {plugins[stage].name for stage in (PipeStage.SOURCE, PipeStage.SINK)}
    if names == {TABLE_SOURCE, WRITE_BACK_SINK} and not renames(plugins[PipeStage.PROCESSOR], attributes):
        raise pipe_error(
            f"{WRITE_BACK_SINK} cannot write what {TABLE_SOURCE} reads: the devices are tables of the TDengine dialect",
            hint="add a processor that renames devices, such as aggregate-processor with output.database, or one of your own",
        )


def renames(processor: Plugin, attributes: Mapping[str, str]) -> bool:
    """Return whether a processor may give its rows other devices: two built-in ones, or one of the user."""
    keys = RENAMING.get(processor.name, ())
    return processor not in PROCESSORS or any(name.endswith(keys) for name in attributes)


def check_stage(context: Context, stage: PipeStage, attributes: Mapping[str, str]) -> Plugin:
    plugin = stage_plugin(context, stage, attributes)
    try:
        plugin.validate()(PipeAttributes(attributes))
        secrets.check_references(attributes, plugin.secrets)
    except Error as error:
        raise as_pipe_error(error, attributes, plugin) from error.__cause__
    return plugin


def check_secrets(plugin: Plugin, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Raise `ProgrammingError` if a stored password would go to another receiver: who names that one has to know the password."""
    names = {name for stage in PipeStage for name in (stage.value, OTHER_NAMES[stage])}

    def is_receiver(key: str) -> bool:
        plain = without_prefix(key)
        is_secret = secrets.is_secret(key, plugin.secrets)
        return not is_secret and (key in names or plugin.receiver is None or plain.startswith(plugin.receiver))

    kept = sorted(key for key, value in new.items() if old.get(key) == value and secrets.is_encrypted(value))
    changed = sorted(key for key in {*old, *new} if old.get(key) != new.get(key) and is_receiver(key))
    if kept and changed:
        message = f"{kept[0]} has to be stated again, since {changed[0]} changes"
        raise pipe_error(message, hint="a stored password goes to the receiver for which it was stated")


def check_receiver(context: PipeContext, plugin: Plugin, attributes: Mapping[str, str]) -> None:
    """Connect to the receiver of a sink once. A password that only the driver has is left to the driver.

    Args:
        context: What the sink gets.
        plugin: Its plugin.
        attributes: Its attributes as they are typed or stored.

    Raises:
        Error: The receiver cannot be reached, or refuses, or the user may not use a secret.
    """
    try:
        clear = secrets.resolve(attributes, plugin.secrets, context.context.settings, context.context.permissions())
    except ConfigurationError:
        return
    try:
        sink = plugin.create()(PipeAttributes(clear), context)
        try:
            sink.handshake()
        finally:
            sink.close()
    except Error as error:
        raise as_pipe_error(error, clear, plugin) from None
    except Exception as error:
        raise as_pipe_error(pipe_error(f"{type(error).__name__}: {error}"), clear, plugin) from None


def as_pipe_error(error: Error, attributes: Mapping[str, str], plugin: Plugin) -> Error:
    """Return an error without the passwords among some attributes, with the status of pipes."""
    error.message, error.hint = (secrets.hide_values(text, attributes, plugin.secrets) for text in (error.message, error.hint))
    return error.with_status(TreeStatus.PIPE_ERROR)

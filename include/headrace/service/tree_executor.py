"""Apply the stages of trees of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.trees import DeviceSeries
from headrace.service import tree_stages
from headrace.service.apply import DONE, apply
from headrace.service.results import Result

if TYPE_CHECKING:
    from headrace.service.state import SessionState


@apply.register(tree_stages.MakeTree)
def _(stage: tree_stages.MakeTree, session: SessionState) -> Result:
    from headrace.trees.databases import make_tree

    make_tree(session.context, stage.database, stage.ttl_ms, if_not_exists=stage.if_not_exists)
    return DONE


@apply.register(tree_stages.MakeSeries)
def _(stage: tree_stages.MakeSeries, session: SessionState) -> Result:
    from headrace.trees.series import create_series

    create_series(session.context, stage.database, [DeviceSeries(stage.database, stage.device, stage.series, stage.aligned)])
    return DONE


@apply.register(tree_stages.RemoveSeries)
def _(stage: tree_stages.RemoveSeries, session: SessionState) -> Result:
    from headrace.trees.series import remove_series

    remove_series(session.context, stage.database, stage.series)
    return DONE


@apply.register(tree_stages.MakeTemplate)
def _(stage: tree_stages.MakeTemplate, session: SessionState) -> Result:
    session.context.catalog.templates.create(stage.template)
    return DONE


@apply.register(tree_stages.RemoveTemplate)
def _(stage: tree_stages.RemoveTemplate, session: SessionState) -> Result:
    session.context.catalog.templates.drop(stage.name)
    return DONE


@apply.register(tree_stages.RegisterFunction)
def _(stage: tree_stages.RegisterFunction, session: SessionState) -> Result:
    session.context.catalog.functions.create(stage.function)
    return DONE


@apply.register(tree_stages.RemoveFunction)
def _(stage: tree_stages.RemoveFunction, session: SessionState) -> Result:
    session.context.catalog.functions.drop(stage.name)
    return DONE


@apply.register(tree_stages.ExtendTemplate)
def _(stage: tree_stages.ExtendTemplate, session: SessionState) -> Result:
    from headrace.trees.templates import extend_template

    extend_template(session.context, stage.name, stage.series)
    return DONE


@apply.register(tree_stages.AssignTemplate)
def _(stage: tree_stages.AssignTemplate, session: SessionState) -> Result:
    from headrace.trees.templates import assign_template

    assign_template(session.context, stage.database, stage.path, stage.name)
    return DONE


@apply.register(tree_stages.ActivateDevice)
def _(stage: tree_stages.ActivateDevice, session: SessionState) -> Result:
    from headrace.trees.templates import activate_devices

    activate_devices(session.context, stage.database, [stage.device], stage.template)
    return DONE


@apply.register(tree_stages.DeactivateDevices)
def _(stage: tree_stages.DeactivateDevices, session: SessionState) -> Result:
    from headrace.trees.templates import deactivate_devices

    deactivate_devices(session.context, stage.database, stage.devices)
    return DONE


@apply.register(tree_stages.ChangeDevice)
def _(stage: tree_stages.ChangeDevice, session: SessionState) -> Result:
    from headrace.trees.series import change_device

    change_device(session.context, stage.database, stage.device, stage.change)
    return DONE


@apply.register(tree_stages.WriteSeries)
def _(stage: tree_stages.WriteSeries, session: SessionState) -> Result:
    from headrace.trees.points import DeviceRows, write_points

    write_points(session.context, [DeviceRows(stage.device, stage.rows)])
    return Result(affected=stage.rows.num_rows or -1)


@apply.register(tree_stages.LoadTree)
def _(stage: tree_stages.LoadTree, session: SessionState) -> Result:
    from headrace.storage.loading.tree_loader import TreeLoadOptions
    from headrace.trees.loading import load_tree

    context = session.context
    options = TreeLoadOptions(format=stage.format, device=stage.device, now=context.clock.now())

    def progress(_: int, read: int) -> None:
        stage.progress(read, stage.bytes)

    rows = load_tree(context, stage.database, stage.files, options, aligned=stage.aligned, progress=progress)
    return Result(affected=rows)


@apply.register(tree_stages.ClearSeries)
def _(stage: tree_stages.ClearSeries, session: SessionState) -> Result:
    from headrace.trees.columns import clear_series

    return Result(affected=clear_series(session.context, stage.database, stage.columns, stage.ranges))


@apply.register(tree_stages.ChangeTtl)
def _(stage: tree_stages.ChangeTtl, session: SessionState) -> Result:
    session.context.catalog.trees.set_ttl(stage.path, stage.ttl_ms)
    return DONE


@apply.register(tree_stages.FindLast)
def _(stage: tree_stages.FindLast, session: SessionState) -> Result:
    from headrace.service.tree_queries import find_last

    return find_last(stage, session.context)


@apply.register(tree_stages.ReadPoints)
def _(stage: tree_stages.ReadPoints, session: SessionState) -> Result:  # noqa: ARG001
    return stage.read()


@apply.register(tree_stages.GroupByTags)
def _(stage: tree_stages.GroupByTags, session: SessionState) -> Result:
    from headrace.queries.evaluation import evaluate_query

    return Result(stage.plan.finish(evaluate_query(stage.plan.plan, session.context)))


@apply.register(tree_stages.VerifyTree)
def _(stage: tree_stages.VerifyTree, session: SessionState) -> Result:
    from headrace.service.tree_verification import verify_tree_query

    return Result(verification=verify_tree_query(stage, session))


@apply.register(tree_stages.WriteInto)
def _(stage: tree_stages.WriteInto, session: SessionState) -> Result:
    from headrace.service.tree_queries import write_into

    return write_into(stage, session.context)

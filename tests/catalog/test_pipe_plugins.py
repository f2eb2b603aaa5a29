"""Registered plugins of pipes in the catalog."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.catalog import Catalog
from headrace.errors import ExistsError, NotFoundError
from headrace.model.functions import Artifact
from headrace.model.pipe_plugins import RegisteredPipePlugin
from headrace.model.pipes import PipeStage

HOOK = RegisteredPipePlugin(
    "HOOK", PipeStage.SINK, "hooks.Hook", Artifact("0" * 64, "hooks.py", 5), ("password", "token"), owner="vera", created=7
)


def test_plugins_are_listed_by_name_and_found_in_any_case(catalog: Catalog) -> None:
    other = replace(HOOK, name="A", stage=PipeStage.SOURCE, artifact=Artifact("1" * 64, "a.py", 1))
    catalog.pipe_plugins.create(HOOK)
    catalog.pipe_plugins.create(other)
    assert catalog.pipe_plugins.all() == [other, HOOK]
    assert catalog.pipe_plugins.get("hOOk") == HOOK
    assert catalog.pipe_plugins.artifacts() == {"0" * 64, "1" * 64}
    catalog.pipe_plugins.drop("hook")
    assert catalog.pipe_plugins.find("HOOK") is None


def test_a_name_is_taken_once(catalog: Catalog) -> None:
    catalog.pipe_plugins.create(HOOK)
    with pytest.raises(ExistsError, match=r"1600: Failed to create PipePlugin \[HOOK], the same name PipePlugin has been created"):
        catalog.pipe_plugins.create(HOOK)


def test_a_plugin_that_does_not_exist_cannot_be_dropped(catalog: Catalog) -> None:
    catalog.pipe_plugins.create(HOOK)
    with pytest.raises(NotFoundError, match=r"1601: Failed to drop PipePlugin \[hoke], this PipePlugin") as refused:
        catalog.pipe_plugins.drop("hoke")
    assert refused.value.hint == "did you mean HOOK?"

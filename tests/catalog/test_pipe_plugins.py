"""Registered plugins of pipes in the catalog."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.catalog import Catalog
from headrace.errors import Error, ExistsError, NotFoundError
from headrace.model.functions import Artifact
from headrace.model.pipe_plugins import RegisteredPipePlugin
from headrace.model.pipes import Pipe, PipeStage
from headrace.pipes.kind import PIPE
from tests.support.pipes import CREATED, pipe
from tests.support.racing import race

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


def test_a_pipe_is_not_recorded_with_a_plugin_that_was_dropped(catalog: Catalog) -> None:
    stages = Pipe({}, {}, {"sink": "hook"}, CREATED)
    catalog.pipe_plugins.create(HOOK)
    catalog.jobs.create(pipe("before"))
    catalog.pipe_plugins.drop("hook")
    with pytest.raises(NotFoundError, match="1107: PipePlugin HOOK does not exist any more"):
        catalog.jobs.create(pipe("late", stages), plugins=["HOOK"])
    with pytest.raises(NotFoundError, match="PipePlugin HOOK does not exist any more"):
        catalog.jobs.redefine(pipe("before", stages), ["HOOK"], user="vera")
    (record,) = catalog.jobs.all(kind=PIPE)
    assert record.definition == pipe("before")


def test_a_pipe_never_loses_its_plugin_in_a_race(catalog: Catalog, url: str) -> None:
    names = [f"HOOK{number}" for number in range(20)]
    for name in names:
        catalog.pipe_plugins.create(replace(HOOK, name=name))
    created, dropped = race(act, [(url, True, names), (url, False, names)])
    assert [name for name in names if (name in created) == (name in dropped)] == []
    assert [one.name for one in catalog.pipe_plugins.all()] == sorted(created)


def act(url: str, creates: bool, names: list[str]) -> list[str]:
    """Create a pipe with each plugin, or drop it; return the names of those for which that was possible."""
    done = []
    with Catalog.open(url) as catalog:
        for name in names:
            try:
                if creates:
                    catalog.jobs.create(pipe(name, Pipe({}, {}, {"sink": name.lower()}, CREATED)), plugins=[name])
                else:
                    catalog.pipe_plugins.drop(name)
            except Error:
                continue
            done.append(name)
    return done

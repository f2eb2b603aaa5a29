"""Plugins of pipes that users have registered."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.functions import Artifact
from headrace.model.pipes import PipeStage


@dataclass(frozen=True, slots=True)
class RegisteredPipePlugin:
    """A plugin of pipes in the catalog.

    Attributes:
        name: In upper case, since names ignore case.
        stage: What its class is: a source, a processor or a sink.
        class_name: The class, with its module.
        artifact: The code.
        secrets: Attributes whose values are secret, without prefix.
        owner: The user whose statement created it.
        created: Epoch milliseconds.
    """

    name: str
    stage: PipeStage
    class_name: str
    artifact: Artifact
    secrets: tuple[str, ...] = ()
    owner: str = ""
    created: int = 0

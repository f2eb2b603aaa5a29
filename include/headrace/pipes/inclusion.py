"""What kinds of events a source captures: the options of `inclusion` and `inclusion.exclusion`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from headrace.errors import Error
from headrace.pipes.attributes import PipeAttributes, pipe_error

INSERT: Final = "data.insert"
DELETE: Final = "data.delete"
CATEGORIES: Final = (
    INSERT,
    DELETE,
    *(f"schema.database.{verb}" for verb in ("create", "alter", "drop")),
    *(f"schema.timeseries.{kind}.{verb}" for kind in ("view", "ordinary") for verb in ("create", "alter", "drop")),
    *(f"schema.timeseries.template.{verb}" for verb in ("create", "set", "unset", "alter", "drop", "activate", "deactivate")),
    "schema.ttl",
    *(f"auth.role.{verb}" for verb in ("create", "drop", "grant", "revoke")),
    *(f"auth.user.{verb}" for verb in ("create", "alter", "drop", "grant", "revoke")),
)
"""The kinds of events. An option names all that begin with its nodes."""
ALIASES: Final = {
    "all": CATEGORIES,
    "delete": tuple(name for name in CATEGORIES if name.rpartition(".")[2] in ("delete", "drop", "unset", "deactivate", "revoke")),
    "schema.delete": tuple(
        name for name in CATEGORIES if name.startswith("schema.") and name.rpartition(".")[2] in ("drop", "unset", "deactivate")
    ),
    "auth.delete": tuple(name for name in CATEGORIES if name.startswith("auth.") and name.endswith((".drop", ".revoke"))),
}


def included(attributes: PipeAttributes) -> frozenset[str]:
    """Return the kinds of events that a source captures.

    Raises:
        ProgrammingError: An option does not exist, or nothing is left.
    """
    captured = set(_expand(attributes.text("extractor.inclusion", "source.inclusion", default=INSERT), "inclusion"))
    excluded = attributes.text("extractor.inclusion.exclusion", "source.inclusion.exclusion")
    captured.difference_update(_expand(excluded, "inclusion.exclusion"))
    if not captured:
        raise pipe_error("The pipe inclusion content can't be empty.", hint=f"include {INSERT}, for example")
    return frozenset(captured)


def _expand(text: str, key: str) -> Iterator[str]:
    """Yield the kinds of events of a list of options."""
    for option in filter(None, ("".join(part.split()).lower() for part in text.split(","))):
        matched = ALIASES.get(option) or _below(option)
        if not matched:
            raise _illegal(key, option)
        yield from matched


def _below(option: str) -> Sequence[str]:
    nodes = option.split(".")
    return [name for name in CATEGORIES if name.split(".")[: len(nodes)] == nodes]


def _illegal(key: str, option: str) -> Error:
    hint = f"{option} is not an option; there are {', '.join(('all', *CATEGORIES))}, and what these begin with"
    return pipe_error(f"The '{key}' string contains illegal path.", hint=hint)

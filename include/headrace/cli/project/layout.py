"""`headrace new`: lays out a project."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.console import out
from headrace.errors import ExistsError

TEMPLATE = "template"
RENAMED = {"gitignore": ".gitignore", "github": ".github"}
"""Names in the package, and in a project: files whose names begin with a dot are left out of packages."""


def new(folder: Annotated[Path, typer.Argument(help="Folder to create.")]) -> None:
    """Lay out a project: definitions, their tests, and a workflow that checks both."""
    if folder.exists() and any(folder.iterdir()):
        raise ExistsError(f"{folder} is not empty", hint="name a new folder")
    source = resources.files("headrace.cli.project") / TEMPLATE
    with resources.as_file(source) as root:
        for path in sorted(root.rglob("*")):
            if path.is_file():
                place = folder.joinpath(*(RENAMED.get(part, part) for part in path.relative_to(root).parts))
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(path.read_text())
                out.print(f"wrote {place}", highlight=False, soft_wrap=True)

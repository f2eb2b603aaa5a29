"""Messages and progress of commands at a terminal. Layers below do not print."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console

if TYPE_CHECKING:
    from rich.progress import Progress

out: Final = Console(emoji=False)
err: Final = Console(stderr=True, emoji=False)


class ProgressTask:
    """A task shown as a progress bar; call it with the number of items done and the total."""

    def __init__(self, progress: Progress, description: str) -> None:
        self._progress = progress
        self._task = progress.add_task(description, total=None)

    def __call__(self, done: int, total: int) -> None:
        self._progress.update(self._task, completed=done, total=max(total, 1))


@contextmanager
def progress_bar(description: str) -> Iterator[ProgressTask]:
    """Show a progress bar with percentage, elapsed and remaining time; a spinner until there is a total."""
    from rich import progress as widgets

    columns = (
        widgets.TextColumn("{task.description}"),
        widgets.BarColumn(),
        widgets.TaskProgressColumn(),
        widgets.MofNCompleteColumn(),
        widgets.TimeElapsedColumn(),
        widgets.TimeRemainingColumn(),
    )
    with widgets.Progress(*columns, console=err, transient=not err.is_terminal) as progress:
        yield ProgressTask(progress, description)

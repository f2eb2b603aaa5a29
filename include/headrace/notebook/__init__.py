"""Statements in Jupyter notebooks and IPython: `%load_ext headrace.notebook`, then `%%headrace` before the statements of a cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add the magic command. IPython calls this for `%load_ext headrace.notebook`."""
    from headrace.notebook.magic import HeadraceMagics

    shell.register_magics(HeadraceMagics(shell))


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Close the connection, if one is open. IPython calls this for `%unload_ext headrace.notebook`."""
    from headrace.notebook.magic import HeadraceMagics

    magics = shell.magics_manager.registry.get(HeadraceMagics.__name__)
    if isinstance(magics, HeadraceMagics):
        magics.disconnect()

"""Names in messages as paths: devices and measurements in their canonical spelling."""

from __future__ import annotations

from headrace.model.paths import ROOT, join_path, parse_path, quote_node, split_path, unquote_node
from headrace.model.remembering import remembered


def device_path(text: str, database: str) -> str | None:
    """Return the path of a device, which is below a database if it does not begin with `root`; None if it is no path."""
    if text == ROOT or not text:
        return None
    if text.startswith(f"{ROOT}."):
        nodes = parse_path(text)
        return None if nodes is None else join_path(nodes)
    written = split_path(text)
    if not database or join_path(written) != text:
        return None
    return f"{database}.{join_path(quote_node(unquote_node(node)) for node in written)}"


@remembered(65_536)
def measurement_node(name: str) -> str:
    """Return the name of a measurement as a canonical node; a name in back-quotes may be one already."""
    is_quoted = len(name) > 2 and name.startswith("`") and split_path(name) == (name,)
    return quote_node(unquote_node(name) if is_quoted else name)

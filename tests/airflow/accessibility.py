"""What axe finds of a view of the page."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe

ALL_RULES: dict[str, Any] = {"resultTypes": ["violations"]}
COLOR_RULES = ALL_RULES | {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
LAYOUT_RULES = ALL_RULES | {"runOnly": {"type": "rule", "values": ["scrollable-region-focusable", "meta-viewport", "target-size"]}}
DARK = "document.documentElement.dataset.theme = 'dark'"
LIGHT = "document.documentElement.dataset.theme = 'light'"


def violations(page: Any, view: str) -> list[str]:
    """Return what axe finds in both colors, and in the width of a phone."""
    reports = []
    for look, width, script, rules in (
        ("light", 1280, LIGHT, ALL_RULES),
        ("dark", 1280, DARK, COLOR_RULES),
        ("phone", 360, DARK, LAYOUT_RULES),
    ):
        page.set_viewport_size({"width": width, "height": 740})
        page.evaluate(script)
        found = Axe().run(page, options=rules)
        if found.violations_count:
            reports.append(f"{view}, {look}: {found.generate_report()}")
        if page.evaluate("document.documentElement.scrollWidth") > width:
            reports.append(f"{view}, {look}: it is wider than the window")
    return reports

"""What Headrace adds to Airflow: its page in the navigation, and the timetable of its DAGs.

Every component and every task loads this module, so it imports nothing that only the page needs.
"""

from __future__ import annotations

import asyncio
import functools
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from headrace_timetable import BackToBack, OncePerStream


@functools.cache
def page() -> Any:
    """The page's application."""
    from headrace.web.airflow_access import AirflowAccess
    from headrace.web.app import create_app

    return create_app(AirflowAccess())


async def page_on_demand(scope: Any, receive: Any, send: Any) -> None:
    """The page, imported when it is first asked for, beside what else the server does."""
    app = await asyncio.to_thread(page)
    await app(scope, receive, send)


class HeadracePlugin(AirflowPlugin):
    """Found by Airflow in its plugins folder."""

    name = "headrace"
    timetables = [BackToBack, OncePerStream]  # noqa: RUF012
    fastapi_apps = [{"app": page_on_demand, "url_prefix": "/headrace", "name": "Headrace"}]  # noqa: RUF012
    external_views = [  # noqa: RUF012
        {
            "name": "Headrace",
            "href": "headrace/",
            "url_route": "headrace",
            "destination": "nav",
            "nav_top_level": True,
            "icon": "headrace/icon.svg",
            "icon_dark_mode": "headrace/icon-dark.svg",
        }
    ]

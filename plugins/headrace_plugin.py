"""Headrace's plugin for Airflow: a page in the navigation, and the timetables of its DAGs.

All components and tasks load this module, so it does not import what only the page needs.
"""

from __future__ import annotations

import asyncio
import functools
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from headrace.airflow.versions import check_airflow
from headrace_timetable import BackToBack, OncePerJob, QuerySchedule

check_airflow()


@functools.cache
def create_page() -> Any:
    """Create the page's application, once per process."""
    from headrace.web.airflow_access import AirflowAccess
    from headrace.web.app import create_app

    return create_app(AirflowAccess())


async def serve_page(scope: Any, receive: Any, send: Any) -> None:
    """Serve a request of the page, importing its application on first use in a thread, to not block the server."""
    app = await asyncio.to_thread(create_page)
    await app(scope, receive, send)


class HeadracePlugin(AirflowPlugin):
    """The plugin that Airflow discovers in its plugins folder."""

    name = "headrace"
    timetables = [BackToBack, OncePerJob, QuerySchedule]  # noqa: RUF012
    fastapi_apps = [{"app": serve_page, "url_prefix": "/headrace", "name": "Headrace"}]  # noqa: RUF012
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

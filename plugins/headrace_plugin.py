"""What Headrace adds to Airflow: its page in the navigation, and the timetable of its DAGs.

Every component and every task loads this module, so it imports nothing that only the page needs.
"""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from headrace_timetable import OncePerStream


class Page:
    """The page's ASGI application, imported when it is first asked for."""

    def __init__(self) -> None:
        self._app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._app is None:
            from headrace.web.airflow_access import AirflowAccess
            from headrace.web.app import create_app

            self._app = create_app(AirflowAccess())
        await self._app(scope, receive, send)


class HeadracePlugin(AirflowPlugin):
    """Found by Airflow in its plugins folder."""

    name = "headrace"
    timetables = [OncePerStream]  # noqa: RUF012
    fastapi_apps = [{"app": Page(), "url_prefix": "/headrace", "name": "Headrace"}]  # noqa: RUF012
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

"""The pictures of the page that the documentation shows, taken in a browser of a home that is the same each time.

`make screenshots` writes them. To add a picture, add a `View` to `VIEWS`, and show it on a page.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import headrace
from headrace.web.app import create_app
from tests.airflow.browsing import browser, served
from tests.airflow.demo_home import DemoHome, demo_home
from tests.airflow.web_page import Executed, Rights, activity_of
from tests.docs.pages import ROOT
from tests.support.living_snode import living_snode

FOLDER: Final = ROOT / "docs/pictures"
MAX_BYTES: Final = 150_000
WIDTH: Final = 1200


@dataclass(frozen=True, slots=True)
class View:
    """A view of the page.

    Attributes:
        name: The name of its file, without ending.
        title: What it shows, which is also its text for those who do not see it.
        address: The query of its URL.
        ready: A selector of what is there once the view is loaded.
        height: In pixels.
        part: A selector of the part to show; empty for the whole window.
        prepare: What is done on the page of the address before the view is there.
    """

    name: str
    title: str
    address: str
    ready: str
    height: int
    part: str = ""
    prepare: Callable[[Any], None] = lambda _: None

    @property
    def file(self) -> Path:
        """The picture in the documentation."""
        return FOLDER / f"{self.name}.png"


STATEMENT: Final = """-- rows that the stream has read and written per second
SELECT time, rows_in_s, rows_out_s FROM information_schema.ins_stream_metrics
WHERE stream_name = 'averages' ORDER BY time;"""


def run_statement(page: Any) -> None:
    """Open the worksheet, run a statement, and show its result as a chart."""
    page.get_by_role("link", name="Worksheet").click()
    page.get_by_label("Database").select_option("power")
    page.get_by_label("SQL statements").focus()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(STATEMENT)
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Enter")
    page.locator("table.rows").wait_for()
    page.get_by_role("button", name="Chart").click()


VIEWS: Final = (
    View("list", "The list of streams with their states, lags and rates", "", "table.jobs .spark", 500),
    View("graph", "The graph of streams between the tables that they read and write", "view=graph", ".graph canvas", 680),
    View("job", "A stream: its counters, offsets, and the flow of its rows", "stream=power.averages", ".sankey", 950),
    View(
        "charts", "Measurements of a stream over an hour", "stream=power.averages", ".charts canvas >> nth=5", 1000, ".measurements"
    ),
    View("windows", "The windows of a stream over time", "stream=power.averages&tab=Windows", ".block", 690),
    View("plan", "The plan of a stream as steps", "stream=power.averages&tab=Plan", ".step", 620),
    View("worksheet", "The worksheet with the chart of a result", "", ".plot canvas", 900, prepare=run_statement),
)


@contextmanager
def opened_page(home: DemoHome) -> Iterator[tuple[Any, str]]:
    """Open a browser for the page of a home that an snode serves; yields its page and the URL."""
    app = create_app(Rights(), home.settings, execute=Executed(), clock=home.clock)
    with ExitStack() as stack:
        root = stack.enter_context(headrace.connect(settings=home.settings, clock=home.clock))
        stand_in = home.catalog.leases.get("default")
        assert stand_in is not None
        home.catalog.leases.release(stand_in)
        detail = activity_of(home.catalog, home.job_id("averages"))
        snode = replace(root.session.context, call_in_snode=None)  # it would ask itself
        stack.enter_context(living_snode(snode, detail=detail))
        url, page = stack.enter_context(served(app)), stack.enter_context(browser())
        page.emulate_media(color_scheme="light", reduced_motion="reduce")
        yield page, url


def take(page: Any, url: str, view: View, file: Path) -> None:
    """Write the picture of a view."""
    page.set_viewport_size({"width": WIDTH, "height": view.height})
    page.goto(f"{url}/?{view.address}")
    view.prepare(page)
    page.locator(view.ready).first.wait_for()
    page.evaluate("document.fonts.ready.then(() => null)")
    if view.part:
        page.locator(view.part).screenshot(path=file)
    else:
        page.screenshot(path=file)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, demo_home(Path(folder)) as home, opened_page(home) as (page, url):
        for view in VIEWS:
            take(page, url, view, view.file)


if __name__ == "__main__":
    main()

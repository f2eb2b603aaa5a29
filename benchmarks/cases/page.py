"""The page with many streams in a browser: from its address until the list, the graph or a stream is shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from benchmarks.bench import Bench
from benchmarks.cases.dags import fill_catalog
from benchmarks.measure import interleave
from benchmarks.results import Limit, Measurement
from headrace.settings import load

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LIMIT_S: Final = 1.0
GRAPH_LIMIT_S: Final = 3.0
NAVIGATION: Final = "performance.now() / 1000"
"""The seconds since the browser has begun to load the page."""
PAINTED: Final = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(null))))"


@dataclass(frozen=True, slots=True)
class View:
    """A view by the query of its URL, a selector of what is there once it is shown, and the seconds that this may take."""

    address: str
    shown: str
    limit_s: float


def opening(page: Any, url: str, view: View) -> Callable[[], Sequence[float]]:
    """Return what opens a view, and measures until it is shown and painted."""

    def measure() -> Sequence[float]:
        page.goto("about:blank")
        page.goto(f"{url}/{view.address}")
        page.locator(view.shown).wait_for()
        page.evaluate(PAINTED)
        return [float(page.evaluate(NAVIGATION))]

    return measure


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure the list, the graph and a stream, with as many streams as DAGs are parsed of."""
    from headrace.web.app import create_app
    from tests.airflow.browsing import browser, served
    from tests.airflow.web_page import Rights

    streams = bench.sizes.dags
    settings = load(home=bench.home / f"page-{streams}")
    fill_catalog(settings, streams)
    views = {
        f"the list of {streams} streams": View("", f"table.jobs tbody tr >> nth={streams - 1}", LIMIT_S),
        f"the graph of {streams} streams": View("?view=graph", ".graph canvas >> nth=0", GRAPH_LIMIT_S),
        "a stream": View("?stream=power.s001", ".facts", LIMIT_S),
    }
    with ExitStack() as stack:
        url, page = stack.enter_context(served(create_app(Rights(), settings))), stack.enter_context(browser())
        timings = interleave({name: opening(page, url, view) for name, view in views.items()}, bench.sizes.rounds, bench.log)
    for name, timing in timings.items():
        yield Measurement(f"page: {name}, from the address until it is shown", timing, limit=Limit(seconds=views[name].limit_s))

"""What the page shows of streams that run: windows, the flow of rows, the plan, events in charts; and the pictures of these."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from headrace.catalog import Catalog
from headrace.model.access import Grant, Grantee, GranteeKind, Privilege
from headrace.model.ledger import Chunk
from headrace.web.actions import plan_chains
from headrace.web.app import create_app
from headrace.web.rights_view import concerns
from tests.airflow.accessibility import violations
from tests.airflow.demo_home import LATE_STEP, START, STEP_S, STEPS, DemoHome, demo_home
from tests.airflow.samples import add_query
from tests.airflow.web_page import Executed, Rights
from tests.docs.screenshots import VIEWS, opened_page, take

WINDOW_MS = STEP_S * 1000
LATE_WINDOW = START + (LATE_STEP - 10) * WINDOW_MS


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoHome]:
    with demo_home(tmp_path_factory.mktemp("demo")) as home:
        yield home


@pytest.fixture(scope="module")
def api(home: DemoHome) -> Iterator[TestClient]:
    app = create_app(Rights(), home.settings, execute=Executed(), clock=home.clock)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="module")
def opened(home: DemoHome) -> Iterator[tuple[Any, str]]:
    with opened_page(home) as opened:
        yield opened


def windows(api: TestClient, home: DemoHome, name: str, **parameters: str) -> dict[str, Any]:
    answer = api.get(f"/api/jobs/{home.job_id(name)}/windows", params=parameters)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_windows_are_those_of_the_target_and_of_the_state(api: TestClient, home: DemoHome) -> None:
    timeline = windows(api, home, "averages")
    latest, *others = [one for one in timeline["windows"] if one["series"].startswith("harbor")]
    assert (timeline["columns"], len(timeline["series"])) == (["mean", "peak", "n"], 3)
    assert len(others) == STEPS - 1
    assert (latest["is_closed"], latest["is_written"]) == (False, False), "the target does not have it yet"
    assert latest["values"][2] == 11, "one of its twelve rows has no voltage"
    assert latest["start"] < timeline["watermark"] < latest["end"] == latest["start"] + WINDOW_MS
    assert all(one["is_closed"] and one["is_written"] and one["values"] for one in others)


def test_windows_that_late_rows_change_are_told_from_others(api: TestClient, home: DemoHome) -> None:
    changed = {one["series"].split("_")[0]: one for one in windows(api, home, "averages")["windows"] if one["recalculated"]}
    assert set(changed) == {"harbor", "library"}
    assert {one["start"] for one in changed.values()} == {LATE_WINDOW}
    assert changed["library"]["values"][1] == 21.7, "the value is that after the late rows"
    late = [one for one in windows(api, home, "overload")["windows"] if one["late_rows"]]
    assert {(one["is_written"], one["values"]) for one in late} == {(False, None)}
    assert {one["start"] for one in late} == {LATE_WINDOW + 5_000, LATE_WINDOW + 15_000, LATE_WINDOW + 60_000}


def test_windows_that_a_run_has_recomputed_name_it(api: TestClient, home: DemoHome) -> None:
    stream, ledger = home.job_id("low"), home.catalog.ledger
    latest, *others = windows(api, home, "low")["windows"]
    ledger.plan(stream, "manual/1", [Chunk(stream, "manual/1", 0, latest["start"], latest["start"] + 1, 1)])
    assert ledger.claim(stream, "manual/1", 0)
    assert windows(api, home, "low")["windows"][0]["recomputed"] is None, "it runs"
    ledger.finish(stream, "manual/1", 0, 1)
    assert [one["recomputed"] for one in windows(api, home, "low")["windows"]] == ["manual/1", *([None] * len(others))]


def test_windows_of_one_subtable_can_be_chosen(api: TestClient, home: DemoHome) -> None:
    name = windows(api, home, "averages")["series"][1]
    timeline = windows(api, home, "averages", series=name)
    assert timeline["chosen"] == name
    assert ({one["series"] for one in timeline["windows"]}, len(timeline["windows"])) == ({name}, STEPS)
    assert windows(api, home, "averages", series="nothing")["windows"] == []


def test_windows_of_subtables_with_a_tag_can_be_chosen(api: TestClient, home: DemoHome) -> None:
    timeline = windows(api, home, "averages")
    ((tag, values),) = timeline["tags"].items()
    assert (tag, values) == ("place", ["harbor", "library", "stadium"])
    for value in values:
        chosen = windows(api, home, "averages", tag=tag, value=value)
        assert len(chosen["series"]) == len({one["series"] for one in chosen["windows"]}) == 1
        assert len(chosen["windows"]) == STEPS
        assert chosen["tags"] == timeline["tags"]
    for parameters in ({"tag": tag, "value": "nothing"}, {"tag": "nothing", "value": "x"}):
        assert windows(api, home, "averages", **parameters)["windows"] == []


@pytest.mark.parametrize(("name", "limit"), [("averages", 40), ("averages", 41), ("overload", 1), ("low", 7)])
def test_earlier_windows_are_read_in_pages(
    api: TestClient, home: DemoHome, monkeypatch: pytest.MonkeyPatch, name: str, limit: int
) -> None:
    whole = windows(api, home, name)
    assert whole["earlier"] is None
    monkeypatch.setattr("headrace.web.window_view.MAX_WINDOWS", limit)
    page = windows(api, home, name)
    read = list(page["windows"])
    while page["earlier"] is not None:
        assert page["windows"][-1]["start"] == page["earlier"]
        page = windows(api, home, name, before=page["earlier"])
        read += page["windows"]
    assert read == whole["windows"]


def test_open_sessions_have_their_present_values_before_they_are_written(api: TestClient, home: DemoHome) -> None:
    (session,) = [one for one in windows(api, home, "low")["windows"] if not one["is_closed"]]
    assert session["series"].startswith("harbor")
    count, least = session["values"]
    assert (count, session["is_written"]) == ((session["end"] - session["start"]) / 10_000 + 1, False)
    assert 4 < least < 7


def test_results_are_for_those_who_may_read_the_target(api: TestClient, home: DemoHome) -> None:
    path, access = f"/api/jobs/{home.job_id('averages')}/windows", home.catalog.access
    vera = Grantee(GranteeKind.USER, "vera")
    access.create_user("vera", "secret12")
    try:
        access.grant(vera, [Grant(Privilege.READ_TABLE, "power.*"), Grant(Privilege.WRITE_TABLE, "results.*")])
        assert api.get(path).json()["code"] == "PERMISSION_DENIED", "to know of a stream is not to read its results"
        access.grant(vera, [Grant(Privilege.READ_TABLE, "results.averages")])
        assert api.get(path).status_code == 200
    finally:
        access.drop(vera)


@contextmanager
def user_with(home: DemoHome, name: str, *grants: Grant) -> Iterator[None]:
    """Create a user with privileges."""
    access, user = home.catalog.access, Grantee(GranteeKind.USER, name)
    access.create_user(name, "secret12")
    try:
        access.grant(user, list(grants))
        yield
    finally:
        access.drop(user)


def test_rights_are_the_owner_and_the_privileges_on_what_a_stream_reads_and_writes(api: TestClient, home: DemoHome) -> None:
    path = f"/api/jobs/{home.job_id('averages')}/rights"
    assert api.get(path).json() == {"owner": "ada", "grants": [], "is_all": True, "has_users": False}
    own = (Grant(Privilege.READ_TABLE, "power.*"), Grant(Privilege.READ_TABLE, "results.averages"))
    others = (
        Grant(Privilege.READ_TABLE, "watch.*"),
        Grant(Privilege.READ_DATA, "root.power.**"),
        Grant(Privilege.USE_CQ, "root.**"),
    )
    with user_with(home, "vera", *own, *others), user_with(home, "emil", Grant(Privilege.WRITE_TABLE, "results.*")):
        rights = api.get(path).json()
        assert (rights["owner"], rights["is_all"], rights["has_users"]) == ("ada", False, True)
        assert [(one["user"], one["privilege"], one["target"]) for one in rights["grants"]] == [
            ("vera", "READ_TABLE", "power.*"),
            ("vera", "READ_TABLE", "results.averages"),
        ]


@pytest.mark.parametrize(
    ("grant", "expected"),
    [
        (Grant(Privilege.READ_DATA, "root.**"), True),
        (Grant(Privilege.WRITE_DATA, "root.out.d.c"), True),
        (Grant(Privilege.READ_SCHEMA, "root.sources.**"), False),
        (Grant(Privilege.USE_CQ, "root.**"), True),
        (Grant(Privilege.USE_PIPE, "root.**"), False),
        (Grant(Privilege.READ_TABLE, "plant.*"), False),
    ],
)
def test_privileges_on_paths_concern_a_query_over_the_tree(tmp_path: Path, grant: Grant, expected: bool) -> None:
    with Catalog.open(f"sqlite:///{tmp_path}/catalog.db") as catalog:
        assert concerns(grant, add_query(catalog)) is expected


def test_the_rights_are_a_tab(opened: tuple[Any, str], home: DemoHome) -> None:
    page, url = opened
    with user_with(home, "vera", Grant(Privilege.READ_TABLE, "power.*"), Grant(Privilege.READ_TABLE, "results.*")):
        page.goto(f"{url}/?stream=power.averages")
        page.get_by_role("tab", name="Rights").click()
        page.get_by_role("cell", name="power.*").wait_for()
        text = page.locator(".rights").inner_text()
    assert "It runs with the rights of ada" in text
    assert "These are your own privileges" in text


@pytest.mark.parametrize("over", ["all", "sample", "hour", "day", "week"])
def test_as_many_rows_flow_out_as_in(api: TestClient, home: DemoHome, over: str) -> None:
    flow = api.get(f"/api/jobs/{home.job_id('averages')}/flow", params={"over": over}).json()
    assert sum(flow["sources"].values()) == sum(flow["outcomes"].values()) > 0
    expected = {"sample": 36, "all": 36 * STEPS + 3}
    if over in expected:
        assert flow["sources"]["in"] == expected[over]
        assert (flow["since"] is None) == (over == "all")


def test_a_plan_is_a_chain_of_steps_with_what_flows_into_them() -> None:
    lines = [
        "left join on x = y",
        "  scan d.a: x",
        "  scan d.b: y",
        "filter: x > 1",
        "aggregate sum(x)",
        "aggregate max(y): keeps y",
    ]
    (steps,) = plan_chains([*lines, "result: x INT"])
    assert [(step["kind"], step["texts"]) for step in steps] == [
        ("read", ["left join on x = y"]),
        ("filter", ["x > 1"]),
        ("aggregate", ["sum(x)", "max(y): keeps y"]),
        ("result", ["x INT"]),
    ]
    assert [[step["texts"] for step in chain] for chain in steps[0]["inputs"]] == [[["d.a: x"]], [["d.b: y"]]]


def test_windows_are_shown_and_reached_by_keyboard(opened: tuple[Any, str]) -> None:
    page, url = opened
    page.goto(f"{url}/?stream=power.averages&tab=Windows")
    page.locator(".block").first.wait_for()
    assert page.locator(".block.closed").count() == 3 * (STEPS - 1)
    assert page.locator(".block.open").count() == 3
    assert page.locator(".block .recalculated").count() == 2
    details = page.locator(".window-details")
    assert details.inner_text().startswith("stadium")
    page.get_by_role("listbox").focus()
    page.keyboard.press("ArrowUp")
    assert details.inner_text().startswith("library")
    assert "open; mean" in details.inner_text()
    page.keyboard.press("ArrowLeft")
    assert "closed and written; mean" in details.inner_text()
    assert page.locator(".block[aria-selected]").get_attribute("id") == page.get_by_role("listbox").get_attribute(
        "aria-activedescendant"
    )
    page.get_by_text("As a table").click()
    assert page.locator(".as-table tbody tr").count() == 3 * STEPS
    lowest, highest = page.locator(".lane").first.locator(".scale span").all_inner_texts()
    assert lowest == "0"
    assert 9 < float(highest) < 22
    page.get_by_label("Subtable").select_option("harbor")
    page.locator(".lane").nth(1).wait_for(state="detached")
    assert page.locator(".block").count() == STEPS
    page.get_by_label("Subtable").select_option("")
    page.locator(".lane").nth(1).wait_for()
    tag = page.locator(".window-tools select").first
    tag.select_option(index=2)
    page.locator(".lane").nth(1).wait_for(state="detached")
    assert page.locator(".lane-name").inner_text() == "library"


def test_earlier_windows_are_a_button_away(opened: tuple[Any, str], monkeypatch: pytest.MonkeyPatch) -> None:
    page, url = opened
    monkeypatch.setattr("headrace.web.window_view.MAX_WINDOWS", 60)
    page.goto(f"{url}/?stream=power.averages&tab=Windows")
    page.get_by_text("The last 60 windows; there are earlier ones").wait_for()
    page.get_by_role("button", name="Earlier").click()
    page.get_by_text("30 windows before").wait_for()
    assert page.get_by_role("button", name="Earlier").is_disabled()
    assert violations(page, "earlier windows") == []
    page.get_by_role("button", name="Later").click()
    page.get_by_text("The last 60 windows").wait_for()


def test_results_are_shown_and_queried_in_the_worksheet(opened: tuple[Any, str]) -> None:
    page, url = opened
    page.goto(f"{url}/?stream=power.averages&tab=Results")
    page.locator("table.rows").wait_for()
    assert page.locator("table.rows tbody tr").count() == 20
    times = page.locator("table.rows tbody td:first-child").all_inner_texts()
    assert times == sorted(times, reverse=True)
    assert violations(page, "results") == []
    page.get_by_role("link", name="Open in the worksheet").click()
    page.get_by_text("SELECT * FROM results.averages ORDER BY _rowts DESC LIMIT 20").wait_for()
    assert page.locator("table.rows").count() == 0, "it is not run"
    assert "#" not in page.url


def test_a_backfill_is_started_by_the_api_of_airflow(opened: tuple[Any, str]) -> None:
    page, url = opened
    asked: list[Any] = []

    def reply(route: Any) -> None:
        asked.append((route.request.url, route.request.post_data_json))
        known = len(asked) < 2
        route.fulfill(status=200 if known else 403, json={"dag_run_id": "manual__1"} if known else {"detail": "Forbidden"})

    page.route("**/api/v2/**", reply)
    page.goto(f"{url}/?stream=power.averages&tab=Backfill")
    page.get_by_label("Times in").select_option("Europe/Berlin")
    page.get_by_label("From").fill("2026-03-29T03:30:05")
    for _ in range(2):
        with page.expect_response("**/api/jobs"):
            pass
    assert page.get_by_label("From").input_value() == "2026-03-29T03:30:05", "it stays when the page is drawn again"
    page.get_by_role("button", name="Start backfill").click()
    page.get_by_role("link", name="manual__1").wait_for()
    page.get_by_label("To", exact=True).fill("2026-03-29T01:30:00")
    page.get_by_role("button", name="Start backfill").click()
    page.get_by_text("You have no right to trigger its DAG").wait_for()
    page.evaluate("localStorage.clear()")
    page.unroute("**/api/v2/**")
    (address, body), (_, second) = asked
    assert address.endswith("/api/v2/dags/headrace_stream__power__averages/dagRuns")
    assert body == {"logical_date": None, "conf": {"from": "2026-03-29T01:30:05.000Z", "to": None}}
    assert second["conf"]["to"] == "2026-03-29T00:30:00.000Z", "before the clock is put forward"
    assert violations(page, "backfill") == []


def test_windows_say_why_there_are_none(home: DemoHome, opened: tuple[Any, str]) -> None:
    page, url = opened
    path = f"**/api/jobs/{home.job_id('averages')}/windows"
    for reply, text in (
        ({"status": 503, "json": {"message": "the storage is away", "hint": "wait"}}, "the storage is away: wait"),
        ({"status": 200, "json": {"windows": [], "series": [], "columns": [], "is_state_read": True}}, "No windows yet."),
    ):
        page.route(path, partial(answer, reply))
        page.goto(f"{url}/?stream=power.averages&tab=Windows")
        page.get_by_text(text).wait_for()
        assert page.get_by_role("listbox").is_hidden()
        assert violations(page, text) == []
        page.unroute(path)


def answer(reply: dict[str, Any], route: Any) -> None:
    route.fulfill(**reply)


def test_the_flow_of_rows_is_drawn_with_a_table_beside_it(opened: tuple[Any, str]) -> None:
    page, url = opened
    page.goto(f"{url}/?stream=power.averages")
    picture = page.locator(".sankey")
    picture.wait_for()
    label = picture.get_attribute("aria-label")
    assert label.startswith(f"{36 * STEPS + 3:,} rows in; of these ")
    assert "66 filtered by WHERE" in label
    assert picture.locator(".band").count() == 4
    page.locator(".flow summary").click()
    assert "filtered by WHERE" in page.locator(".flow table").inner_text()
    page.locator(".flow").get_by_role("button", name="Last sample").click()
    page.get_by_text("36 rows, ").wait_for()


def test_events_are_marked_in_charts(opened: tuple[Any, str]) -> None:
    page, url = opened
    page.goto(f"{url}/?stream=power.peaks")
    page.locator(".charts canvas").first.wait_for()
    assert re.findall("[A-Z]{5,}", page.locator(".marks").inner_text()) == ["RESUMED", "PAUSED"]
    page.goto(f"{url}/?stream=power.averages")
    page.locator(".charts canvas").first.wait_for()
    assert "ALTERED" in page.locator(".marks").inner_text()
    assert marked_columns(page) == 1, "one dashed line"


def marked_columns(page: Any) -> int:
    """Return in how many places of the first chart a line in the color of events goes from its top to its bottom."""
    return int(
        page.evaluate(
            """() => {
                const canvas = document.querySelector(".charts canvas");
                const probe = document.createElement("i");
                probe.style.color = "var(--accent)";
                document.body.append(probe);
                const [r, g, b] = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
                const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
                const counts = Array.from({ length: width }, (_, x) => {
                    let hits = 0;
                    for (let y = 0; y < height; y++) {
                        const at = (y * width + x) * 4;
                        if (Math.hypot(data[at] - r, data[at + 1] - g, data[at + 2] - b) < 12) hits += 1;
                    }
                    return hits;
                });
                const isMarked = counts.map((hits) => hits > height / 5);
                return isMarked.filter((marked, x) => marked && !isMarked[x - 1]).length;
            }""",
        )
    )


def test_a_plan_is_drawn_and_its_text_stays(opened: tuple[Any, str]) -> None:
    page, url = opened
    page.goto(f"{url}/?stream=power.averages&tab=Plan")
    page.locator(".step").first.wait_for()
    kinds = ["scan", "filter", "partition by", "window", "aggregate", "result"]
    assert page.locator(".step > b").all_inner_texts() == kinds
    page.get_by_text("As text").click()
    assert page.locator(".plan pre").inner_text().startswith("scan power.meters")


def test_edges_of_the_graph_have_rates_and_the_color_of_the_state(opened: tuple[Any, str]) -> None:
    page, url = opened
    page.goto(f"{url}/?view=graph")
    page.get_by_text("4 jobs").wait_for()
    edges = page.evaluate(
        "document.querySelector('.graph')._cyreg.cy.edges().map((edge) => [edge.data('source'), edge.data('text'), edge.classes()])"
    )
    texts = {source: (text, classes) for source, text, classes in edges if source.startswith("stream:")}
    assert texts["stream:power.averages"] == ("0.03/s", ["RUNNING"])
    assert texts["stream:power.low"] == ("", ["PAUSED"])
    label = page.evaluate("document.querySelector('.graph')._cyreg.cy.getElementById('data:results.averages').data('text')")
    assert re.fullmatch(r"results.averages\n\d+ rows, .* ago", label)
    page.get_by_label("Find in the graph").fill("results.averages")
    page.keyboard.press("Enter")
    page.locator(".graph-table table.rows").wait_for()
    assert violations(page, "latest rows in the graph") == []
    page.get_by_role("button", name="Close the latest rows").click()
    assert page.locator(".graph-table").is_hidden()


def test_no_new_view_has_violations(opened: tuple[Any, str]) -> None:
    page, url = opened
    found = []
    for name, tab, loaded in (
        *((name, "Windows", ".block") for name in ("averages", "overload")),
        ("averages", "Plan", ".step"),
        ("averages", "Overview", ".sankey"),
    ):
        page.goto(f"{url}/?stream=power.{name}&tab={tab}")
        page.locator(loaded).first.wait_for()
        for summary in page.locator("details summary").all():
            summary.click()
        found += violations(page, f"{name} {tab}")
    assert found == []


def test_the_pictures_of_the_documentation_are_those_of_this_page(opened: tuple[Any, str], tmp_path: Path) -> None:
    page, url = opened
    for view in VIEWS:
        take(page, url, view, tmp_path / view.file.name)
        assert size_of(tmp_path / view.file.name) == size_of(view.file), f"run `make screenshots` for {view.name}"


def size_of(picture: Path) -> tuple[int, int]:
    """Return width and height of a PNG file."""
    width, height = struct.unpack(">II", picture.read_bytes()[16:24])
    return width, height

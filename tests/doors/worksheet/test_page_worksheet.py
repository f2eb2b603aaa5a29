"""The worksheet in a browser: writing, completing, running, canceling, and what is shown of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.runtime.dag_ids import snode_dag_id
from headrace.web.app import create_app
from tests.airflow.accessibility import violations
from tests.airflow.browsing import browser, served
from tests.airflow.web_page import Rights
from tests.doors.worksheet.conftest import SHOWN_ROWS, WorksheetHome
from tests.support.busy_spark import occupied

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ROWS = "select ts, current, voltage, big, note from d1001 order by ts"
WINDOWS = "select _wstart, tbname, avg(current), max(voltage) from meters partition by tbname interval(10m)"


@pytest.fixture(scope="module")
def url(free: WorksheetHome) -> Iterator[str]:
    with served(create_app(Rights(), free.settings)) as url:
        yield url


@pytest.fixture(scope="module")
def window() -> Iterator[Any]:
    """Open a browser for all tests of the file."""
    with browser() as page:
        yield page


@pytest.fixture
def page(window: Any, url: str) -> Any:
    """Open the worksheet with the database `power` chosen, and the focus in the editor."""
    window.set_viewport_size({"width": 1280, "height": 740})
    open_worksheet(window, url)
    window.evaluate("localStorage.clear()")
    clear(window)  # what the test before has left
    return window


def open_worksheet(page: Any, url: str) -> None:
    page.goto(url)
    page.get_by_role("link", name="Worksheet").click()
    page.get_by_label("Database").select_option("power")
    page.get_by_label("SQL statements").focus()


def clear(page: Any) -> None:
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")


def write(page: Any, text: str) -> None:
    """Write into the editor; what is typed brings suggestions up, which Escape closes."""
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(text)
    page.keyboard.press("Escape")


def wait_for_status(page: Any, text: str) -> None:
    page.locator(".status", has_text=text).wait_for()


def test_a_statement_is_completed_run_and_shown_as_table_and_chart(page: Any) -> None:
    page.keyboard.type("select vol")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+A")
    page.keyboard.insert_text("select current,  from d1001 order by ts")
    for _ in range(len(" from d1001 order by ts")):
        page.keyboard.press("ArrowLeft")
    page.keyboard.type("vol")
    page.locator(".CodeMirror-hint", has_text="voltage").wait_for()
    page.keyboard.press("Enter")
    page.keyboard.press("Control+Enter")
    page.locator("table.rows").wait_for()
    assert page.locator("table.rows th").all_inner_texts() == ["current", "voltage"]
    assert page.get_by_role("button", name="Chart").is_disabled()
    write(page, ROWS)
    page.keyboard.press("Control+Enter")
    page.locator("table.rows th", has_text="note").wait_for()
    assert f"The first {SHOWN_ROWS} rows. There are more" in page.locator(".result-bar").inner_text()
    assert page.locator("table.rows tbody tr").first.locator("td").all_inner_texts()[1:] == ["0", "220", str(2**53), "n0"]
    page.get_by_role("button", name="Next").click()
    assert page.locator("table.rows tbody tr").first.locator("td").nth(3).inner_text() == str(2**53 + 100)
    page.get_by_role("button", name="Chart").click()
    assert "current from 0 to 8; voltage from 220 to 220" in page.locator(".plot").get_attribute("aria-label")
    assert page.locator(".plot canvas").bounding_box()["width"] > 300
    assert violations(page, "chart") == []


def test_lines_of_several_series_are_told_apart(page: Any) -> None:
    write(page, WINDOWS)
    page.keyboard.press("Control+Enter")
    page.locator("table.rows").wait_for()
    page.get_by_role("button", name="Chart").click()
    names = [name.strip() for name in page.locator(".keys label").all_inner_texts()]
    assert sorted(names) == ["avg(current) d1001", "avg(current) d1002", "max(voltage) d1001", "max(voltage) d1002"]


def test_statements_run_one_after_the_other_up_to_an_error_at_its_place(page: Any) -> None:
    write(page, "use power;\nselect count(*) from meters;\nselect 'ä😀', noted\nfrom meters;\nshow stables")
    page.keyboard.press("Control+Shift+Enter")
    wait_for_status(page, "The statement failed. 1 statement was not run.")
    assert (
        page.locator(".results .reason").inner_text()
        == "NOT_FOUND line 3, column 14: column noted does not exist\n→ did you mean note?"
    )
    assert page.locator(".error-mark").inner_text() == "noted"
    assert page.locator(".error-note").inner_text() == "column noted does not exist"
    page.get_by_role("tab", name="count").click()
    page.locator(".history summary").click()
    assert violations(page, "table, error and history") == []
    page.get_by_role("tab", name="count").focus()
    page.keyboard.press("ArrowLeft")
    assert page.locator("[role=tab][aria-selected=true]").inner_text() == "✓ 1 use power"
    page.get_by_label("SQL statements").focus()
    page.keyboard.type(" ")
    assert page.locator(".error-mark").count() == 0
    write(page, "show databases; select 1")
    page.keyboard.press("Control+Home")
    page.keyboard.press("Control+Enter")  # the one at the cursor
    page.locator("table.rows td", has_text="power").first.wait_for()
    assert page.locator("[role=tab]").count() == 0


def test_suggestions_close_and_do_not_come_back(page: Any) -> None:
    shown = page.locator(".CodeMirror-hints")
    closings: tuple[Callable[[], object], ...] = (
        lambda: page.keyboard.press("Escape"),
        lambda: page.get_by_label("Language").focus(),
        lambda: page.locator("h1").click(),
        lambda: page.locator(".CodeMirror-line").first.click(position={"x": 5, "y": 5}),
    )
    for close in closings:
        for is_waiting in (False, True):
            clear(page)
            page.keyboard.type("sel")
            if not is_waiting:
                shown.wait_for()
            close()
            page.wait_for_timeout(300)
            assert shown.count() == 0
            page.get_by_label("SQL statements").focus()
    clear(page)
    page.keyboard.type("selec")
    shown.get_by_text("SELECT").first.click()
    assert page.locator(".CodeMirror-code").inner_text().endswith("SELECT")


def test_names_are_listed_and_written_into_the_editor(page: Any) -> None:
    write(page, "select ")
    names = page.locator(".names")
    names.get_by_role("button", name="What is below power").click()
    names.get_by_role("button", name="What is below meters").click()
    names.get_by_role("button", name="voltage").wait_for()
    assert "voltage INT" in names.inner_text()
    assert "place VARCHAR(20)" in names.inner_text()
    page.get_by_label("SQL statements").focus()
    names.get_by_role("button", name="voltage").click()
    page.keyboard.type(" from ")
    names.get_by_role("button", name="meters", exact=True).click()
    assert page.locator(".CodeMirror-code").inner_text().endswith("select voltage from power.meters")
    assert violations(page, "names") == []
    page.set_viewport_size({"width": 1280, "height": 740})
    page.get_by_label("Language").select_option("iotdb")
    names.get_by_role("button", name="What is below root.plant").click()
    names.get_by_role("button", name="line2", exact=True).click()
    assert page.locator(".CodeMirror-code").inner_text().endswith("root.plant.line2")
    page.get_by_label("Language").select_option("tdengine")


def test_a_result_is_exported_and_becomes_a_stream(page: Any) -> None:
    write(page, "select ts, note, current from d1001 where note like 'n1%' order by ts limit 2")
    page.keyboard.press("Control+Enter")
    page.locator("table.rows").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Export CSV").click()
    lines = Path(download.value.path()).read_bytes().decode().split("\r\n")
    assert lines[0] == "ts,note,current"
    assert [line.split(",")[1:] for line in lines[1:]] == [["n1", "1"], ["n10", "1"], []]
    made = page.evaluate(
        """async () => (await import("./worksheet-export.js")).toCsv(
            { columns: [{ name: "a,b" }, { name: "c" }], rows: [[null, 'say "hi"'], ["", { x: 1 }], [" x", "two\\nlines"]] })"""
    )
    assert made == '"a,b",c\r\n,"say ""hi"""\r\n"","{""x"":1}"\r\n" x","two\nlines"\r\n'
    page.get_by_role("button", name="Create a stream from this query").click()
    page.keyboard.type("loud")  # the name is selected
    text = page.locator(".CodeMirror-code").inner_text()
    assert "CREATE STREAM loud INTO my_stream_out AS" in text
    assert text.endswith("select ts, note, current from d1001 where note like 'n1%'")
    write(page, "show databases")
    page.keyboard.press("Control+Enter")
    page.locator("table.rows td", has_text="power").first.wait_for()
    assert page.get_by_role("button", name="from this query").count() == 0


def test_times_have_their_zone_which_can_be_chosen(page: Any, url: str) -> None:
    write(page, "select ts from d1001 order by ts limit 1")
    page.keyboard.press("Control+Enter")
    page.locator("table.rows").wait_for()
    page.get_by_label("Times in").select_option("UTC")
    assert page.locator("table.rows th").inner_text() == "ts UTC"
    assert page.locator("table.rows td").inner_text().startswith("2026-09-21 14:13:20")
    page.get_by_label("Times in").select_option("Asia/Tokyo")
    assert page.locator("table.rows th").inner_text() == "ts Asia/Tokyo"
    assert page.locator("table.rows td").inner_text().startswith("2026-09-21 23:13:20")
    page.locator(".history summary").click()
    assert "UTC+9" in page.locator(".past small").first.inner_text()
    page.goto(url)
    assert page.get_by_label("Times in").input_value() == "Asia/Tokyo"
    page.get_by_label("Times in").select_option("")


def test_a_query_is_canceled_and_the_history_outlives_the_page(page: Any, url: str, spark: SparkSession, tmp_path: Path) -> None:
    with occupied(spark, tmp_path):
        write(page, ROWS)
        page.keyboard.press("Control+Enter")
        wait_for_status(page, "Running")
        page.get_by_role("button", name="Cancel").click()
        wait_for_status(page, "Canceled after")
    write(page, "alter user nobody pass 'Secret-12'")
    page.keyboard.press("Control+Enter")
    wait_for_status(page, "failed")
    open_worksheet(page, url)
    assert "Secret-12" not in page.evaluate("JSON.stringify(localStorage) + JSON.stringify(sessionStorage)")
    page.locator(".history summary").click()
    assert "'*********'" in page.locator(".past").inner_text()
    page.locator(".past button", has_text=ROWS).click()
    assert ROWS in page.locator(".CodeMirror-code").inner_text()
    page.get_by_role("button", name="Clear the history").click()
    assert page.locator(".past li").count() == 0


def test_paths_of_trees_are_completed_and_the_keyboard_leaves_the_editor(page: Any) -> None:
    page.get_by_label("Language").select_option("iotdb")
    page.get_by_label("SQL statements").focus()
    page.keyboard.type("select speed from root.plant.l")
    page.locator(".CodeMirror-hint", has_text="line2").wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.keyboard.press("Control+Enter")
    page.locator("table.rows td", has_text="2.5").wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("!document.activeElement.closest('.CodeMirror')")


def test_without_an_snode_or_rights_the_page_says_so(free: WorksheetHome, window: Any) -> None:
    page = window
    with served(create_app(Rights(fixed={snode_dag_id("default")}), free.settings)) as url:
        page.goto(f"{url}/worksheet.html")
        page.locator("#notice", has_text="the right to edit the DAG").wait_for()
        page.route(
            "**/api/worksheet",
            lambda route: route.fulfill(json={"user": "v", "dialect": "iotdb", "is_ready": False, "databases": []}),
        )
        page.reload()
        page.locator("#ready", has_text="no snode is alive").wait_for()
        assert violations(page, "without an snode") == []
        page.unroute("**/api/worksheet")

"""Statements in notebooks: cells of a real IPython shell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from IPython.core.interactiveshell import InteractiveShell
from matplotlib.axes import Axes

from headrace.errors import InterfaceError
from headrace.notebook.charts import MAX_LINES, plot_rows


def drawn(axes: Axes) -> dict[str, list[float]]:
    """Return the numbers of each line."""
    return {str(line.get_label()): np.asarray(line.get_ydata(), float).tolist() for line in axes.get_lines()}


PLANT = """%%headrace
CREATE DATABASE plant;
USE plant;
CREATE STABLE pumps (ts TIMESTAMP, flow DOUBLE, fault BOOL) TAGS (line INT);
INSERT INTO p1 USING pumps TAGS (1) VALUES ('2024-05-01 12:00:00', 1.5, true) ('2024-05-01 12:01:00', 2.5, false);
INSERT INTO p2 USING pumps TAGS (2) VALUES ('2024-05-01 12:00:00', 10, false)
"""


class Notebook:
    """A shell with the extension, and what it shows."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self.shell = InteractiveShell()
        self._capture = capture
        self.run("%load_ext headrace.notebook")

    def run(self, cell: str) -> Any:
        """Run a cell, and return its value."""
        outcome = self.shell.run_cell(cell)
        outcome.raise_error()
        return outcome.result

    def shown(self, cell: str) -> str:
        """Run a cell, and return what it prints, also if it fails."""
        self._capture.readouterr()
        self.shell.run_cell(cell, silent=True)
        return self._capture.readouterr().out


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Notebook]:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    mpl.use("agg")
    opened = Notebook(capsys)
    yield opened
    opened.run("%unload_ext headrace.notebook")


def test_a_cell_returns_the_rows_of_its_last_statement(notebook: Notebook) -> None:
    assert notebook.shown(PLANT) == "OK, 1 rows\n"
    rows = notebook.run(
        "%%headrace\nSELECT count(*) FROM p1;\nSELECT tbname, sum(flow) AS flow FROM pumps GROUP BY tbname ORDER BY tbname"
    )
    assert isinstance(rows, pd.DataFrame)
    assert rows.to_dict("list") == {"tbname": ["p1", "p2"], "flow": [4.0, 10.0]}


@pytest.mark.parametrize(("name", "kind"), [("polars", pl.DataFrame), ("arrow", pa.Table)])
def test_rows_are_kept_in_a_variable_of_the_chosen_kind(notebook: Notebook, name: str, kind: type) -> None:
    notebook.run(PLANT)
    assert notebook.run(f"%%headrace --into rows --frame {name}\nSELECT flow FROM p1") is None
    assert isinstance(notebook.shell.user_ns["rows"], kind)


def test_an_error_is_shown_as_on_the_command_line(notebook: Notebook) -> None:
    shown = notebook.shown("%%headrace\nSELECT nothing FROM nowhere")
    assert shown.startswith("error [")
    assert "hint: " in shown
    assert "Traceback" not in shown


def test_a_syntax_error_anywhere_runs_nothing(notebook: Notebook) -> None:
    notebook.run(PLANT)
    assert "error [SYNTAX]" in notebook.shown("%%headrace\nDROP TABLE p1;\nSELEC 1")
    assert len(notebook.run("%%headrace\nSELECT * FROM p1")) == 2


@pytest.mark.parametrize("options", ["--into rows", "--plot"])
def test_options_of_rows_need_rows(notebook: Notebook, options: str) -> None:
    assert "has no rows" in notebook.shown(f"%%headrace {options}\nCREATE DATABASE other")


def test_a_variable_needs_a_name(notebook: Notebook) -> None:
    notebook.run(PLANT)
    assert "no name of a variable" in notebook.shown("%%headrace --into 1a\nSELECT * FROM p1")


def test_later_cells_use_the_same_home_in_another_language(notebook: Notebook, tmp_path: Path) -> None:
    notebook.run(f"%headrace {tmp_path / 'other'}")
    notebook.run("%%headrace --dialect iotdb\nINSERT INTO root.plant.p1(time, flow) VALUES (1, 2.5)")
    assert notebook.run("%%headrace\nSELECT flow FROM root.plant.p1")["root.plant.p1.flow"].tolist() == [2.5]
    assert (tmp_path / "other").is_dir()
    assert not (tmp_path / "home").exists()


def test_a_user_is_asked_for_the_password(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook.run("%%headrace --dialect iotdb\nCREATE USER operator 'secret12'")
    asked: list[str] = []
    answers = iter(["wrong", "secret12"])

    def answer(prompt: str) -> str:
        asked.append(prompt)
        return next(answers)

    monkeypatch.setattr("getpass.getpass", answer)
    assert "error [" in notebook.shown("%headrace --user operator --dialect iotdb")
    notebook.run("%headrace --user operator --dialect iotdb")
    assert asked == ["Password of operator: "] * 2
    assert "803" in notebook.shown("%%headrace\nCREATE USER another 'secret12'")


def test_numbers_are_drawn_over_time_a_line_for_each_text(notebook: Notebook) -> None:
    notebook.run(PLANT)
    axes = notebook.run("%%headrace --plot\nSELECT ts, tbname, flow FROM pumps")
    assert isinstance(axes, Axes)
    assert drawn(axes) == {"p1": [1.5, 2.5], "p2": [10]}
    assert axes.get_ylabel() == "flow"


def test_lines_of_different_instants_have_no_gaps() -> None:
    instants = pd.to_datetime([1, 2, 3, 4], unit="s")
    axes = plot_rows(pd.DataFrame({"ts": instants, "name": ["a", "b", "a", "b"], "x": [1, 2, 3, 4]}))
    assert list(drawn(axes).values()) == [[1, 3], [2, 4]]


def test_several_numbers_are_drawn_without_texts() -> None:
    instants = pd.to_datetime([2, 1], unit="s")
    axes = plot_rows(pd.DataFrame({"ts": instants, "a": [2, 1], "b": [20, 10]}))
    assert drawn(axes) == {"a": [1, 2], "b": [10, 20]}


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (pd.DataFrame({"a": [1]}), "no column of instants"),
        (pd.DataFrame({"ts": pd.to_datetime([1]), "a": ["x"], "b": [True]}), "no column of numbers"),
        (
            pd.DataFrame({"ts": pd.to_datetime([1] * (MAX_LINES + 1)), "name": [str(n) for n in range(MAX_LINES + 1)], "a": 1}),
            "cannot be read",
        ),
    ],
)
def test_what_cannot_be_drawn_is_an_error(rows: pd.DataFrame, reason: str) -> None:
    with pytest.raises(InterfaceError, match=reason):
        plot_rows(rows)

"""Waits: results, timeouts and reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import waiting


@pytest.fixture
def near_waits(monkeypatch: pytest.MonkeyPatch) -> list[waiting.Wait]:
    waits: list[waiting.Wait] = []
    monkeypatch.setattr(waiting, "near_waits", waits)
    return waits


def test_a_wait_returns_the_first_true_result(near_waits: list[waiting.Wait]) -> None:
    results = iter([None, False, "ready"])
    assert waiting.wait_until(lambda: next(results), "a result") == "ready"
    assert near_waits == []


def test_a_wait_that_times_out_has_its_description_and_details() -> None:
    with pytest.raises(TimeoutError, match="waited 0 s for a miracle\nthe log"):
        waiting.wait_until(lambda: None, "a miracle", details=lambda: "the log", bound_s=0)


def test_waits_near_their_limit_are_reported(
    near_waits: list[waiting.Wait], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(waiting.REPORT_VARIABLE, str(tmp_path / "waits"))
    for seconds in (10.0, 350.0):
        waiting.note(waiting.Wait("a driver", seconds, 600.0))
    waiting.append_report()
    assert [str(wait) for wait in near_waits] == ["350 of 600 s: a driver"]
    assert (tmp_path / "waits").read_text() == '{"what": "a driver", "seconds": 350.0, "bound": 600.0}\n'

from __future__ import annotations

import pytest

from tests.support import drawing


@pytest.fixture(autouse=True)
def draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "TAKES_ALL", False)


@pytest.mark.parametrize(("slowdown", "share", "expected"), [(1.0, 2, 500), (2.5, 2, 200), (4.0, 3, 83)])
def test_one_in_share_is_drawn_and_fewer_on_a_slow_machine(
    monkeypatch: pytest.MonkeyPatch, slowdown: float, share: int, expected: int
) -> None:
    monkeypatch.setattr(drawing, "SLOWDOWN", slowdown)
    count = sum(drawing.is_drawn(f"tests/test_{number}.py", share) for number in range(1000))
    assert abs(count - expected) < 80


@pytest.mark.parametrize(("slowdown", "count", "expected"), [(1.0, 4, 4), (2.0, 4, 2), (4.0, 1, 1), (1.0, 20, 10)])
def test_cases_are_drawn_in_their_order_and_at_least_one(
    monkeypatch: pytest.MonkeyPatch, slowdown: float, count: int, expected: int
) -> None:
    monkeypatch.setattr(drawing, "SLOWDOWN", slowdown)
    cases = drawing.drawn(range(10), "purpose", count)
    assert len(cases) == expected
    assert cases == sorted(set(cases))

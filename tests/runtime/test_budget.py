"""Shares of what a server has."""

from __future__ import annotations

import asyncio

import pytest

from headrace.runtime.budget import Budget


class Grants(list[str]):
    """The names of what was granted, in order."""

    def ask(self, budget: Budget, owner: str, size: int, name: str) -> None:
        budget.reserve(owner, size, lambda: self.append(name))


def test_an_owner_has_a_share_at_most_and_others_the_rest() -> None:
    budget, grants = Budget(100, 40), Grants()
    for number in range(4):
        grants.ask(budget, "vera", 20, f"vera {number}")
    grants.ask(budget, "theo", 20, "theo")
    assert grants == ["vera 0", "vera 1", "theo"]
    budget.release("vera", 20)
    assert grants == ["vera 0", "vera 1", "theo", "vera 2"]


def test_one_reservation_may_exceed_the_share() -> None:
    budget = Budget(100, 40)
    assert budget.try_reserve("vera", 90)
    assert not budget.try_reserve("vera", 1)
    assert budget.try_reserve("theo", 10)
    assert not budget.try_reserve("anna", 1)


def test_those_that_wait_are_served_in_turns() -> None:
    budget, grants = Budget(10, 10), Grants()
    assert budget.try_reserve("root", 10)
    for number in range(3):
        grants.ask(budget, "vera", 10, f"vera {number}")
    grants.ask(budget, "theo", 10, "theo")
    for owner in ("root", "vera", "theo", "vera"):
        budget.release(owner, 10)
    assert grants == ["vera 0", "theo", "vera 1", "vera 2"]


def test_a_small_one_does_not_overtake_what_waits_for_room() -> None:
    budget, grants = Budget(100, 100), Grants()
    assert budget.try_reserve("vera", 60)
    grants.ask(budget, "theo", 50, "theo")
    assert not budget.try_reserve("anna", 10)
    budget.release("vera", 60)
    assert grants == ["theo"]
    assert budget.try_reserve("anna", 10)


def test_what_is_withdrawn_keeps_nobody_waiting() -> None:
    budget, grants = Budget(100, 100), Grants()
    assert budget.try_reserve("vera", 60)

    def never() -> None:
        raise AssertionError

    budget.reserve("theo", 50, never)
    grants.ask(budget, "anna", 40, "anna")
    assert budget.withdraw("theo", never)
    assert not budget.withdraw("theo", never)
    assert grants == ["anna"]


def test_a_block_that_is_canceled_holds_nothing() -> None:
    async def play() -> None:
        budget = Budget(1, 1)

        async def hold(owner: str, entered: asyncio.Event) -> None:
            async with budget.held(owner, 1):
                entered.set()
                await asyncio.Event().wait()

        first_entered, second_entered = asyncio.Event(), asyncio.Event()
        first = asyncio.create_task(hold("vera", first_entered))
        await first_entered.wait()
        second = asyncio.create_task(hold("theo", second_entered))
        await asyncio.sleep(0)
        second.cancel()
        first.cancel()
        for task in (first, second):
            with pytest.raises(asyncio.CancelledError):
                await task
        async with budget.held("anna", 1):
            assert not second_entered.is_set()

    asyncio.run(play())


def test_what_is_needed_at_once_is_held_in_the_block_or_raises_an_error() -> None:
    budget = Budget(10, 10)
    with budget.at_once("vera", 8, ValueError()):
        with pytest.raises(ValueError), budget.at_once("theo", 8, ValueError()):
            raise AssertionError("the block does not run")
        assert budget.try_reserve("theo", 2)
    assert budget.try_reserve("theo", 8)

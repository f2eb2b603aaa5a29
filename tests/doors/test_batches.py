"""Batches of small writes: what is handled together, and when."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.doors.batches import Batches

SHORT_S, LONG_S = 0.001, 3_600.0


class Handled:
    """Sends items, and handles each batch once it is let go."""

    def __init__(self, executor: ThreadPoolExecutor, delay_s: float, max_bytes: int) -> None:
        self.batches: list[list[str]] = []
        self.started, self.gate = threading.Semaphore(0), threading.Semaphore(0)
        self.collected = Batches(executor, self.handle, len, delay_s=delay_s, max_bytes=max_bytes)

    def handle(self, items: Sequence[str]) -> Sequence[str]:
        self.started.release()
        self.gate.acquire()
        self.batches.append(list(items))
        return [item.upper() for item in items]

    def send(self, item: str) -> asyncio.Future[str]:
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.collected.submit(item, answer.set_result)
        return answer

    async def start(self) -> None:
        """Wait until a batch is handled."""
        await asyncio.to_thread(self.started.acquire)


def handled(play: Callable[[Handled], Awaitable[None]], delay_s: float, max_bytes: int = 100) -> list[list[str]]:
    """Play something in an event loop, and return what was handled together."""

    async def run() -> Handled:
        with ThreadPoolExecutor(1) as executor:
            own = Handled(executor, delay_s, max_bytes)
            await play(own)
            assert not own.collected.waiting
        return own

    return asyncio.run(run()).batches


def test_items_that_come_within_the_delay_are_one_batch() -> None:
    async def play(own: Handled) -> None:
        answers = [own.send("a"), own.send("b")]
        own.gate.release()
        assert await asyncio.gather(*answers) == ["A", "B"]

    assert handled(play, SHORT_S) == [["a", "b"]]


def test_a_batch_waits_for_those_that_were_answered() -> None:
    async def play(own: Handled) -> None:
        first = [own.send("a"), own.send("b")]
        await own.start()
        third = own.send("c")
        own.collected._delay_s = LONG_S
        own.gate.release()
        await asyncio.gather(*first)
        again = [own.send("d"), own.send("e")]
        own.gate.release()
        assert await asyncio.gather(third, *again) == ["C", "D", "E"]
        own.collected._timer.cancel()  # type: ignore[union-attr]

    assert handled(play, SHORT_S) == [["a", "b"], ["c", "d", "e"]]


def test_it_waits_no_longer_than_the_delay_for_those_that_do_not_come_again() -> None:
    async def play(own: Handled) -> None:
        first = [own.send("a"), own.send("b")]
        await own.start()
        own.gate.release()
        await asyncio.gather(*first)
        own.gate.release()
        assert await own.send("c") == "C"

    assert handled(play, SHORT_S) == [["a", "b"], ["c"]]


def test_batches_have_a_limit_of_bytes_and_a_larger_item_is_alone() -> None:
    async def play(own: Handled) -> None:
        answers = [own.send(item) for item in ("aa", "bb", "c" * 9, "d")]
        for _ in answers:
            own.gate.release()
        await asyncio.gather(*answers)

    assert handled(play, SHORT_S, max_bytes=4) == [["aa", "bb"], ["c" * 9], ["d"]]


def test_without_a_delay_each_item_is_handled_alone() -> None:
    async def play(own: Handled) -> None:
        answers = [own.send(item) for item in "abc"]
        for _ in answers:
            own.gate.release()
        await asyncio.gather(*answers)

    assert handled(play, 0) == [["a"], ["b"], ["c"]]


def test_an_answer_that_cannot_be_sent_keeps_no_other_from_its_client(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: str) -> None:
        raise RuntimeError("gone")

    async def play(own: Handled) -> None:
        own.collected.submit("a", fail)
        answer = own.send("b")
        own.gate.release()
        assert await answer == "B"
        own.gate.release()
        assert await own.send("c") == "C"

    assert handled(play, SHORT_S) == [["a", "b"], ["c"]]
    assert "unexpected error in an answer" in caplog.text

"""Random writes to `readings`, in lanes: independent histories in one batch, so that each batch tries many of them."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from tests.streams import counting
from tests.streams.effort import EXAMPLES
from tests.streams.environment import Row, StreamEnvironment

ORDINARY_EXAMPLES: Final = 1500
"""About how many examples an ordinary run would try in all profiles: independent histories of writes, times their streams."""
SHRINK_S: Final = 120
"""How long to shrink a failing example."""
MAX_LANES: Final = 8
DEVICES: Final = ("d0", "d1", "d2")

Test = TypeVar("Test", bound=Callable[..., None])
Action = tuple[str, Any]
"""`("insert", rows)`, or `("delete", (subtable, first, length))`."""

INSTANTS = st.integers(0, 60).map(lambda half: half * 500)
ROWS = st.tuples(st.sampled_from(DEVICES), INSTANTS, st.none() | st.integers(0, 9), st.none() | st.sampled_from("xy"))
INSERTS = st.lists(ROWS, min_size=1, max_size=8).map(lambda rows: ("insert", rows))
DELETES = st.tuples(st.sampled_from(DEVICES), INSTANTS, st.integers(0, 8000)).map(lambda cut: ("delete", cut))
LANES = st.lists(st.one_of(INSERTS, INSERTS, INSERTS, DELETES), min_size=1, max_size=10)


@dataclass(frozen=True)
class Scenario:
    """The writes of all lanes. In each step each lane performs its next action. After steps in `polls` the streams catch up.

    After steps in `ticks`, every step if there are none, the clock passes all delays. Drivers restart in the steps of `restarts`.
    """

    lanes: Sequence[Sequence[Action]]
    polls: Sequence[bool] = ()
    ticks: Sequence[bool] = ()
    restarts: Collection[int] = ()

    @property
    def subtables(self) -> dict[str, tuple[int, int]]:
        """The subtables with their tags `g` and `lane`."""
        return {
            lane_subtable(device, lane): (2 * lane + (2 if device == "d2" else 1), lane)
            for lane in range(len(self.lanes))
            for device in DEVICES
        }

    def steps(self) -> Iterator[tuple[list[Action], bool, bool]]:
        """Yield for each step its writes (all inserts are one), and whether streams catch up and delays pass after it."""
        for number in range(max(len(lane) for lane in self.lanes)):
            actions = [(lane, *actions[number]) for lane, actions in enumerate(self.lanes) if number < len(actions)]
            rows = [(lane_subtable(row[0], lane), *row[1:]) for lane, verb, what in actions if verb == "insert" for row in what]
            cuts = [(lane_subtable(what[0], lane), *what[1:]) for lane, verb, what in actions if verb == "delete"]
            writes: list[Action] = [("insert", rows)] if rows else []
            yield (
                [*writes, *(("delete", cut) for cut in cuts)],
                holds(self.polls, number),
                not self.ticks or holds(self.ticks, number),
            )


STEPS = st.lists(st.booleans(), min_size=10, max_size=10)
RESTARTS = st.just(frozenset[int]()) | st.frozensets(st.integers(0, 11), min_size=1, max_size=2)
SCENARIOS = st.builds(Scenario, st.lists(LANES, min_size=1, max_size=MAX_LANES), STEPS, STEPS, RESTARTS)


def holds(steps: Sequence[bool], number: int) -> bool:
    """Return whether something happens after a step."""
    return number < len(steps) and steps[number]


def lane_subtable(device: str, lane: int) -> str:
    """Return the subtable of a device in a lane."""
    return device if lane == 0 else f"{device}_{lane}"


def apply_action(env: StreamEnvironment, action: Action) -> None:
    """Perform one write."""
    verb, what = action
    if verb == "insert":
        env.insert(what)
    else:
        subtable, first, length = what
        env.delete(subtable, first, first + length)


def last_by_key(rows: Sequence[Row]) -> dict[tuple[str, int], tuple[int | None, str | None]]:
    """Return the rows that one write leaves: for each key the last."""
    return {(row[0], row[1]): (row[2], row[3]) for row in rows}


def count_examples(scenario: Scenario, partitions: Iterable[str]) -> None:
    """Count what a scenario has tried: streams with all of its writes, and with the history of each lane.

    Args:
        scenario: The writes.
        partitions: How each stream groups rows. Without groups, the windows of all lanes are one history.
    """
    for partition in partitions:
        counting.add("streams with a sequence of writes")
        counting.add("histories of a stream (independent groups of subtables)", len(scenario.lanes) if partition else 1)


def scale(scenarios: int) -> int:
    """Return how many scenarios this run plays instead of those of an ordinary run."""
    return max(scenarios, scenarios * EXAMPLES // ORDINARY_EXAMPLES)


def property_settings(examples: int) -> settings:
    """Return the settings of a property with so many scenarios, and in proportion more in a campaign."""
    return settings(
        max_examples=scale(examples),
        deadline=None,
        derandomize=False,
        report_multiple_bugs=False,
        print_blob=True,
        phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )


def limit_shrinking(test: Test) -> Test:
    """Stop shrinking after `SHRINK_S`: from then on only examples that have failed before can fail."""
    failures: set[str] = set()
    since: list[float] = []

    @functools.wraps(test)
    def bounded(*args: Any, **kwargs: Any) -> None:
        drawn = repr([value for name, value in sorted(kwargs.items()) if name not in ("env", "spark")])
        if since and time.monotonic() - since[0] > SHRINK_S and drawn not in failures:
            return
        try:
            test(*args, **kwargs)
        except Exception:
            failures.add(drawn)
            since.append(time.monotonic())
            raise

    return cast(Test, bounded)

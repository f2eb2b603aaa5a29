"""The dimensions of a pipe, and which of their values may stand together."""

from __future__ import annotations

from typing import Final

from tests.combinations.covering import Combination, Rule
from tests.combinations.stream_dimensions import has

EVENTS: Final = ("appended", "late", "corrected", "deleted", "rewritten", "device", "measurement", "stopped", "altered")
DIMENSIONS: Final = {
    "series": ("all", "prefix", "wildcard", "nodes"),
    "inclusion": ("default", "insert", "data", "excluded", "delete", "none"),
    "times": ("none", "start", "end", "both", "swapped"),
    "history": ("on", "off", "since", "until", "swapped"),
    "realtime": ("on", "off"),
    "mode": ("default", "snapshot"),
    "begin": ("at once", "later"),
    "processor": ("default", "do-nothing", "tumbling", "changing", "aggregate", "counting", "plugin", "no operators", "misspelled"),
    "sink": ("delta", "one folder", "write-back", "nothing", "recording", "no uri"),
    "first": EVENTS,
    "second": EVENTS,
    "stop": ("none", "processed", "delivered", "recorded", "restart"),
}
"""`stop` is where a driver dies, or that the home is opened again. With `begin` later, rows come before the pipe runs."""

DELETES: Final = ("data", "delete")


def is_expressible(combination: Combination) -> bool:
    """Return whether a combination is a pipe that can be played. It may be incomplete."""
    # A pipe with a snapshot drops itself.
    is_gone = has(combination, mode="snapshot") and bool(
        {"stopped", "altered"} & {combination.get("first", ""), combination.get("second", "")}
    )
    return not is_gone and not has(combination, first="device", second="device")


RULES: Final = (
    Rule(
        lambda c: has(c, history="off", realtime="off", times="none"),
        "Should not set both history.enable and realtime.enable to false.",
    ),
    Rule(lambda c: has(c, times="swapped"), "should be less than or equal to"),
    Rule(lambda c: has(c, history="swapped", times="none"), "should be less than or equal to"),
    Rule(lambda c: has(c, inclusion="none"), "The pipe inclusion content can't be empty."),
    Rule(
        lambda c: has(c, inclusion=DELETES, series=("wildcard", "nodes")),
        "is not valid for the source. Only prefix or full path is allowed.",
    ),
    Rule(lambda c: has(c, processor="no operators"), "The parameter operators must not be empty."),
    Rule(lambda c: has(c, processor="misspelled"), "tumbling-time.seconds"),
    Rule(lambda c: has(c, sink="no uri"), "uri"),
)


def is_played(combination: Combination) -> bool:
    """Return whether a combination is a pipe that runs."""
    return is_expressible(combination) and not any(rule.forbids(combination) for rule in RULES)

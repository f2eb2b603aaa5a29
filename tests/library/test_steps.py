"""Functions whose cost grows faster than their series stop at a limit, before they begin."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pytest

from headrace.code.languages import with_library
from headrace.compute.functions.arrow import ArrowArguments, ArrowFunction
from headrace.compute.language import language
from headrace.errors import LimitError
from headrace.library import IOTDB_LIBRARY, find_class
from headrace.library.signatures import SIGNATURES
from headrace.library.steps import MAX_STEPS
from headrace.model.time import Precision
from headrace.model.types import DOUBLE
from headrace.udf import UDAF, UDTF, ParameterError, Parameters, Type
from tests.library.calls import rows_of

ROWS: Final = 40
CALLS: Final[dict[str, dict[str, str]]] = {
    "ar": {"p": "8"},
    "cluster": {"l": "4", "k": "3"},
    "deconv": {},
    "dtw": {},
    "lof": {"method": "series"},
    "outlier": {"w": "10", "s": "1"},
    "pacf": {"lag": "30"},
    "segment": {},
    "timestamprepair": {"interval": "1500"},
    "twosidedfilter": {"len": "8"},
    "valuerepair": {"method": "lsgreedy"},
    "dtw_match": {"pattern": "1,2,3,4,5", "threshold": "1"},
    "pattern_match": {"timePattern": "0,1", "valuePattern": "0,1", "threshold": "1"},
}


def run(name: str, max_steps: int) -> None:
    """Call a function over a series."""
    function = find_class(IOTDB_LIBRARY + SIGNATURES[name].class_name)
    assert function is not None
    inputs = 2 if name in {"deconv", "dtw"} else 1
    walk = np.random.default_rng(1).normal(size=ROWS).cumsum().tolist()
    columns = [walk, [*walk[:8], *[None] * (ROWS - 8)] if name == "deconv" else walk][:inputs]
    types = [Type.DOUBLE] * inputs
    parameters = Parameters(types, CALLS[name]).with_system_attribute(MAX_STEPS, str(max_steps))
    rows = rows_of(range(0, 1000 * ROWS, 1000), columns, types)
    if issubclass(function, UDAF):
        from headrace.code.aggregate_calls import AggregateCall

        AggregateCall(function(), parameters).values(rows.add_column(0, "group", pa.array([0] * ROWS)), 1)
        return
    from headrace.code.series_calls import SeriesCall

    assert issubclass(function, UDTF)
    call = SeriesCall(function(), parameters)
    call.process(rows)
    call.finish()


@pytest.mark.parametrize("name", CALLS)
def test_a_function_stops_at_the_limit_and_names_the_setting(name: str) -> None:
    run(name, 10**10)
    with pytest.raises(ParameterError, match=f"{name} takes .* steps for .*, more than HEADRACE_LIBRARY_MAX_STEPS, which is 200"):
        run(name, 200)


@pytest.mark.parametrize("dialect", ["iotdb", "tdengine"])
def test_the_setting_is_the_limit(dialect: str) -> None:
    function = with_library(language(dialect), 200).functions["dtw_match"]
    assert isinstance(function, ArrowFunction)
    constants, attributes = (("1,2,3", 1), ()) if dialect == "tdengine" else ((), (("pattern", "1,2,3"), ("threshold", "1")))
    rule = function.make_rule(ArrowArguments("dtw_match", (DOUBLE,), constants, Precision.MILLISECOND, attributes))
    rows = pa.table({"group": [0] * ROWS, "time": range(ROWS), "x0": np.ones(ROWS)})
    with pytest.raises(LimitError, match="HEADRACE_LIBRARY_MAX_STEPS"):
        rule.apply(rows, 1)

"""IoTDB's `MASTER_REPAIR`: replace tuples of series by master tuples near them and consistent with the repairs before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.compute.functions.arrow import TIME, SeriesArrowArguments, SeriesArrowRule
from headrace.compute.functions.series_streams import VALUE, whole_series
from headrace.compute.iotdb.samples import WholeSeriesFunction
from headrace.compute.iotdb.types import Attributes, type_error
from headrace.errors import DataError
from headrace.model.types import DOUBLE

Array = npt.NDArray[Any]
Places = npt.NDArray[np.int64]

SHARE_WITHIN_ETA: Final = 0.9973
SHARE_OF_NEIGHBORS: Final = 0.9
MAX_NEIGHBORS: Final = 5
BLOCK: Final = 1024
HINT: Final = "give the series to repair, then as many of master data: master_repair(a, b, master_a, master_b)"


@dataclass(frozen=True, slots=True)
class Settings:
    """The attributes of a call; `omega`, `eta` and `k` are None to derive them from the data.

    Repairs must agree `omega` ticks back, within `eta` standard deviations, and are chosen among `k` neighbors. `column` is that of
    the output, from 1.
    """

    omega: int | None
    eta: float | None
    k: int | None
    column: int


def master_repair_rule(arguments: SeriesArrowArguments) -> SeriesArrowRule:
    attributes, count = Attributes(arguments.attributes), len(arguments.types)
    if count < 2 or count % 2:
        raise type_error(f"the number of the input series is not valid. expected: an even number. actual: {count}.", hint=HINT)
    omega = attributes.integer("omega") if attributes.has("omega") else None
    eta = attributes.real("eta") if attributes.has("eta") else None
    k = attributes.integer("k") if attributes.has("k") else None
    column = attributes.integer("output_column", 1)
    if omega is not None and omega < 0:
        raise type_error("Parameter omega should be non-negative.", hint="it is a length of time in ticks")
    if eta is not None and not eta > 0:
        raise type_error("Parameter eta should be larger than 0.", hint="it is a distance in standard deviations")
    if k is not None and k <= 0:
        raise type_error("Parameter k should be a positive integer.", hint="use 1 or more")
    if not 0 < column <= count // 2:
        raise type_error("Parameter output_column should be a positive integer.", hint=f"use 1 to {count // 2}")
    return SeriesArrowRule(DOUBLE, whole_series(repair_series, settings=Settings(omega, eta, k, column)))


def repair_series(rows: pa.Table, settings: Settings) -> pa.Table:
    """Return one column of the repaired tuples, at the instants at which any series has a value."""
    names = [name for name in rows.column_names if name != TIME]
    values = np.column_stack([rows[name].cast(pa.float64(), safe=False).to_numpy() for name in names])
    width = len(names) // 2
    data, master = values[:, :width], values[:, width:]
    present = ~np.isnan(data).all(axis=1)
    times = rows[TIME].to_numpy()[present]
    if not len(times):
        return pa.table({TIME: pa.array([], pa.int64()), VALUE: pa.array([], pa.float64())})
    repair = complete_repair(times, fill_missing(data[present]), master[~np.isnan(master).all(axis=1)], settings)
    return pa.table({TIME: times, VALUE: repair.master[repair.master_indexes(), settings.column - 1]})


def fill_missing(data: Array) -> Array:
    """Fill missing values with the previous ones. Raise `DataError` if the first tuple lacks one."""
    if np.isnan(data[0]).any():
        raise DataError("master_repair: a series has no value at the first instant", hint="begin where all series have a value")
    last = np.where(np.isnan(data), 0, np.arange(len(data))[:, None])
    return np.asarray(np.take_along_axis(data, np.maximum.accumulate(last, axis=0), axis=0))


@dataclass(frozen=True, slots=True)
class Repair:
    """The tuples to repair, the master tuples and the settings. `deviations` scale distances."""

    times: Array
    data: Array
    master: Array
    deviations: Array
    omega: int
    eta: float
    k: int

    def distances(self, left: Array, right: Array) -> Array:
        difference = (left[:, None, :] - right[None, :, :]) / self.deviations
        return np.asarray(np.sqrt((difference * difference).sum(axis=2)))

    def neighbors(self, master_indexes: Array, count: int) -> Places:
        """Return the indexes of the nearest master tuples of each tuple, nearest first."""
        blocks = [master_indexes[start : start + BLOCK] for start in range(0, len(master_indexes), BLOCK)]
        ranked = [np.argsort(self.distances(block, self.master), axis=1, kind="stable")[:, :count] for block in blocks]
        return np.concatenate(ranked)

    def master_indexes(self) -> Places:
        """Return the index of the master tuple that repairs each tuple, in order, since each depends on earlier repairs."""
        chosen = np.empty(len(self.times), np.int64)
        data_neighbors = self.neighbors(self.data, self.k)
        master_neighbors = self.neighbors(self.master, self.k)
        starts = np.searchsorted(self.times, self.times - self.omega)
        for index, start in enumerate(starts):
            before = chosen[start:index][::-1]
            choices = data_neighbors[index] if len(before) else data_neighbors[index][:1]
            chosen[index] = self.nearest_choice(index, np.concatenate([choices, master_neighbors[before].ravel()]), before)
        return chosen

    def nearest_choice(self, index: int, choices: Places, before: Places) -> int:
        """Return the nearest choice that is within eta of all repairs before.

        One exists: the latest repair is itself a choice, and is within eta of the repairs before it.
        """
        if len(before):
            smooth = (self.distances(self.master[choices], self.master[before]) <= self.eta).all(axis=1)
            choices = choices[smooth]
        return int(choices[np.argmin(self.distances(self.data[index : index + 1], self.master[choices])[0])])


def complete_repair(times: Array, data: Array, master: Array, settings: Settings) -> Repair:
    if not len(master) or np.isnan(master).any():
        raise DataError(
            "master_repair: the master data is incomplete", hint="give a value of each master series at each of its instants"
        )
    deviations = data.std(axis=0)
    if not deviations.all():
        raise DataError("master_repair: a series is constant, so that distances have no scale", hint="repair series that vary")
    omega = 10 * median_interval(times) if settings.omega is None else settings.omega
    repair = Repair(times, data, master, deviations, omega, settings.eta or 0.0, settings.k or 0)
    repair = repair if settings.eta is not None else replace(repair, eta=default_eta(repair))
    return repair if settings.k is not None else replace(repair, k=default_k(repair))


def median_interval(times: Array) -> int:
    intervals = np.sort(np.diff(times))
    return int(intervals[len(intervals) // 2]) if len(intervals) else 0


def default_eta(repair: Repair) -> float:
    """Return the default `eta`: a high quantile of the distances between tuples within omega."""
    samples = [np.empty(0)]
    for lag in range(1, len(repair.times)):
        near = repair.times[lag:] <= repair.times[:-lag] + repair.omega
        if not near.any():
            break
        difference = (repair.data[lag:][near] - repair.data[:-lag][near]) / repair.deviations
        samples.append(np.sqrt((difference * difference).sum(axis=1)))
    distances = np.sort(np.concatenate(samples))
    return float(distances[int(len(distances) * SHARE_WITHIN_ETA)]) if len(distances) else 0.0


def default_k(repair: Repair) -> int:
    """Return the default `k`: the least number of neighbors of which a tenth are farther than eta."""
    for count in range(2, MAX_NEIGHBORS + 1):
        places = repair.neighbors(repair.data, count)
        difference = (repair.data[:, None, :] - repair.master[places]) / repair.deviations
        distances = np.sort(np.sqrt((difference * difference).sum(axis=2)).ravel())
        if distances[int(len(distances) * SHARE_OF_NEIGHBORS)] > repair.eta:
            return count
    return min(MAX_NEIGHBORS, len(repair.master))


MASTER_REPAIR: Final = WholeSeriesFunction(
    "master_repair",
    master_repair_rule,
    "column `output_column` of several series, each tuple replaced by the one of the master series (after them) that fits; "
    "`omega`, `eta` and `k` come from the data by default",
    min_arguments=2,
    max_arguments=None,
)

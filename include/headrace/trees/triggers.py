"""Which triggers a write calls, and in which order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headrace.code.triggers import TabletRows
from headrace.model.trees import Device, DeviceSeries, Timeseries
from headrace.model.triggers import RegisteredTrigger
from headrace.trees.tablets import WrittenTablets


@dataclass(frozen=True, slots=True)
class MatchedTrigger:
    """A trigger that a write calls, and the series that it is for, by device."""

    trigger: RegisteredTrigger
    series: Mapping[str, tuple[Timeseries, ...]]


def match_triggers(
    triggers: Iterable[RegisteredTrigger], written: Sequence[DeviceSeries], devices: Mapping[str, Device]
) -> list[MatchedTrigger]:
    """Return the triggers whose pattern matches series that are written."""
    by_path: dict[str, list[DeviceSeries]] = defaultdict(list)
    for one in written:
        by_path[one.path].append(one)
    paths = {path: series_paths(devices[path], own) for path, own in by_path.items()}
    matched = []
    for trigger in triggers:
        series = {path: matching_series(trigger, own) for path, own in paths.items()}
        if any(series.values()):
            matched.append(MatchedTrigger(trigger, {path: own for path, own in series.items() if own}))
    return matched


def series_paths(device: Device, written: Iterable[DeviceSeries]) -> list[tuple[tuple[str, ...], Timeseries]]:
    """Return the series of a device that are written, with the nodes of their paths."""
    new_series = (device.find(new.measurement) for one in written for new in one.series)
    series = {one.measurement: one for one in new_series if one is not None}
    return [((*device.nodes, measurement), one) for measurement, one in series.items()]


def matching_series(trigger: RegisteredTrigger, series: Iterable[tuple[tuple[str, ...], Timeseries]]) -> tuple[Timeseries, ...]:
    return tuple(one for path, one in series if trigger.path_pattern.matches(path))


def called_triggers(
    matched: Sequence[MatchedTrigger], written: Iterable[WrittenTablets]
) -> Iterator[tuple[RegisteredTrigger, TabletRows]]:
    """Yield each call of triggers: for each device and table, all triggers that are for series with values."""
    if not matched:
        return
    for tablets in written:
        for own in tablets:
            for one in matched:
                tablet = own.tablet(one.series.get(own.device.path, ()))
                if tablet is not None:
                    yield one.trigger, tablet

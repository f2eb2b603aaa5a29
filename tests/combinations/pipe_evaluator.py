"""What a pipe delivers, in plain Python that takes one row after the other, as the guides describe sources and processors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Point = tuple[str, int, str]
"""A device, a time, and a measurement."""
SECOND: Final = 1000
SAMPLED_S: Final = 7
DEVIATION: Final = 2
WINDOW_MS: Final = 10 * SECOND


@dataclass
class Processor:
    """A processor and its state.

    Attributes:
        moved: The database of the source and that of the results.
        counted: The number of points since the pipe began.
    """

    kind: str
    moved: tuple[str, str]
    samples: dict[tuple[str, str], tuple[int, Any]] = field(default_factory=dict)
    windows: dict[tuple[str, str], tuple[int, list[Any]]] = field(default_factory=dict)
    counted: int = 0

    def process(self, device: str, time: int, values: Mapping[str, Any]) -> Iterator[tuple[Point, Any]]:
        """Yield the points that are delivered when a row arrives."""
        match self.kind:
            case "tumbling":
                values = self.sampled(device, time, values)
            case "changing":
                values = {name: value for name, value in values.items() if self.has_changed((device, name), time, value)}
            case "aggregate":
                for name, value in values.items():
                    yield from self.aggregated(device, time, name, value)
                return
            case "counting":
                self.counted += len(values)
                return
            case "plugin":
                device = device.replace(*self.moved)
                values = {name: 2 * value for name, value in values.items()}
        for name, value in values.items():
            yield (device, time, name), value

    def sampled(self, device: str, time: int, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a row if one of its series has no sample, or one that is far enough away; it becomes that of those that follow."""
        names = sorted(values)
        for place, name in enumerate(names):
            last = self.samples.get((device, name))
            if last is None or abs(time - last[0]) >= SAMPLED_S * SECOND:
                self.samples |= {(device, later): (time, None) for later in names[place:]}
                return values
        return {}

    def has_changed(self, series: tuple[str, str], time: int, value: Any) -> bool:
        """Return whether a value becomes the sample of its series: it needs a greater deviation, and another time."""
        last = self.samples.get(series)
        if last is not None and (time == last[0] or abs(value - last[1]) <= DEVIATION):
            return False
        self.samples[series] = (time, value)
        return True

    def aggregated(self, device: str, time: int, name: str, value: Any) -> Iterator[tuple[Point, Any]]:
        """Yield the results of a window when a point at or after its end arrives; what is later than that does not count."""
        window = time // WINDOW_MS * WINDOW_MS
        start, values = self.windows.get((device, name), (window, []))
        if window > start:
            result = f"{device.replace(*self.moved)}.{name}"
            yield (result, start, "count"), len(values)
            yield (result, start, "max"), max(values)
            start, values = window, []
        if window == start:
            self.windows[device, name] = (start, [*values, value])

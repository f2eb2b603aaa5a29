"""Rows of tablets, which plugins process as in IoTDB's API."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.pipe import EventCollector, PipeProcessor, Row, RowCollector, TabletEvent, Type


class Above(PipeProcessor):
    """Keeps the rows whose `v` is greater than 2."""

    def process(self, tablet: TabletEvent, collector: EventCollector) -> None:
        for event in tablet.process_row_by_row(self.keep):
            collector.collect(event)

    def keep(self, row: Row, row_collector: RowCollector) -> None:
        index = row.get_column_index(f"{row.get_device_id()}.v")
        if not row.is_null(index) and row.get_double(index) > 2:
            row_collector.collect_row(row)


class AboveOfTablet(Above):
    """Does the same with the tablet as a whole."""

    def process(self, tablet: TabletEvent, collector: EventCollector) -> None:
        for event in tablet.process_tablet(self.keep_all):
            collector.collect(event)

    def keep_all(self, tablet: TabletEvent, row_collector: RowCollector) -> None:
        for row in tablet:
            self.keep(row, row_collector)


def tablet() -> TabletEvent:
    values = {"v": [1.5, 2.5, None, 4.5], "w": [1, None, 3, 4]}
    return TabletEvent.of("root.a.d", [1, 2, 3, 4], values, {"w": Type.INT32}, "us", is_aligned=True)


@pytest.mark.parametrize("processor", [Above, AboveOfTablet])
def test_collected_rows_are_a_tablet_of_the_same_series(processor: type[Above]) -> None:
    collector = EventCollector()
    processor().process(tablet(), collector)
    (event,) = collector.take_events()
    assert isinstance(event, TabletEvent)
    assert (event.device_id, event.timestamp_precision, event.is_aligned) == ("root.a.d", "us", True)
    assert [(row.time, row["v"], row.get("w")) for row in event] == [(2, 2.5, None), (4, 4.5, 4)]
    assert [(one.get_measurement_id(), one.get_type()) for one in event.get_schemas()] == [("v", Type.DOUBLE), ("w", Type.INT32)]
    assert [event.bit_maps[1].is_marked(row) for row in range(event.row_size)] == [True, False]


def test_rows_of_other_devices_and_measurements_are_tablets_of_their_own() -> None:
    def move(row: Row, collector: RowCollector) -> None:
        if row.time > 2:
            row = replace(row, device_id="root.b.e", measurements=("w",), values=row.values[1:], data_types=row.data_types[1:])
        collector.collect_row(row)

    first, second = tablet().process_row_by_row(move)
    assert (first.device_id, first.measurements, first.timestamps) == ("root.a.d", ("v", "w"), [1, 2])
    assert (second.device_id, second.measurements, second.values) == ("root.b.e", ("w",), [[3, 4]])
    assert second.get_schemas()[0].type is Type.INT32
    with pytest.raises(TypeError, match="collect_row takes a row, not tuple"):
        tablet().process_row_by_row(lambda row, collector: collector.collect_row((row.time, 1)))  # type: ignore[arg-type]

"""Classes as IoTDB's guides have them in Java, in Python line by line: functions, aggregates, and a trigger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import headrace
from headrace.code.hosts import current_hosts
from headrace.errors import InvalidCodeError, TriggerFireError, TypeMismatchError
from tests.support.alert_receiver import receiving_alerts

FUNCTIONS: Final = """
import struct

from headrace.udf import (
    RowByRowAccessStrategy, SessionTimeWindowAccessStrategy, SlidingTimeWindowAccessStrategy, State, StateWindowAccessStrategy,
    Type, UDAF, UDTF,
)


class Adder(UDTF):
    def before_start(self, parameters, configurations):
        configurations.set_output_data_type(Type.INT64).set_access_strategy(RowByRowAccessStrategy())

    def transform(self, row, collector):
        if row.is_null(0) or row.is_null(1):
            return
        collector.put_long(row.get_time(), row.get_long(0) + row.get_long(1))


class Counter(UDTF):
    def before_start(self, parameters, configurations):
        configurations.set_output_data_type(Type.INT32).set_access_strategy(
            SlidingTimeWindowAccessStrategy(
                parameters.get_long("time_interval"),
                parameters.get_long("sliding_step"),
                parameters.get_long("display_window_begin"),
                parameters.get_long("display_window_end"),
            )
        )

    def transform(self, row_window, collector):
        if row_window.window_size() != 0:
            collector.put_int(row_window.window_start_time(), row_window.window_size())


class DisplayWindow(Counter):
    def before_start(self, parameters, configurations):
        begin, end = parameters.get_long("display_window_begin"), parameters.get_long("display_window_end")
        configurations.set_output_data_type(Type.INT32).set_access_strategy(self.strategy(begin, end, parameters))


class Sessions(DisplayWindow):
    def strategy(self, begin, end, parameters):
        return SessionTimeWindowAccessStrategy(begin, end, parameters.get_long("session_gap"))


class States(DisplayWindow):
    def strategy(self, begin, end, parameters):
        return StateWindowAccessStrategy(begin, end, parameters.get_double("delta"))


class Max(UDTF):
    time = None
    value = 0

    def before_start(self, parameters, configurations):
        configurations.set_output_data_type(Type.INT32).set_access_strategy(RowByRowAccessStrategy())

    def transform(self, row, collector):
        if row.is_null(0):
            return
        candidate_value = row.get_int(0)
        if self.time is None or self.value < candidate_value:
            self.time = row.get_time()
            self.value = candidate_value

    def terminate(self, collector):
        if self.time is not None:
            collector.put_int(self.time, self.value)


class Inputs(UDTF):
    def before_start(self, parameters, configurations):
        self.paths = parameters.get_child_expressions()
        configurations.set_output_data_type(Type.TEXT)

    def transform(self, row, collector):
        collector.put_string(row.get_time(), ", ".join(self.paths))


class AvgState(State):
    def reset(self):
        self.sum = 0
        self.count = 0

    def serialize(self):
        return struct.pack(">dq", self.sum, self.count)

    def deserialize(self, data):
        self.sum, self.count = struct.unpack(">dq", data)


class Avg(UDAF):
    def validate(self, validator):
        validator.validate_input_series_number(1).validate_input_series_data_type(0, Type.INT32, Type.INT64)

    def before_start(self, parameters, configurations):
        configurations.set_output_data_type(Type.DOUBLE)

    def create_state(self):
        return AvgState()

    def add_input(self, state, column, bit_map):
        for i in range(column[0].get_position_count()):
            if bit_map is not None and not bit_map.is_marked(i):
                continue
            if not column[0].is_null(i):
                state.sum += column[0].get_int(i)
                state.count += 1

    def combine_state(self, state, rhs):
        state.count += rhs.count
        state.sum += rhs.sum

    def output_final(self, state, result_value):
        if state.count != 0:
            result_value.set_double(state.sum / state.count)
        else:
            result_value.set_null()


class MultiplyState(State):
    def reset(self):
        self.result = 0


class Multiply(Avg):
    def create_state(self):
        state = MultiplyState()
        state.result = 1
        return state

    def add_input(self, state, column, bit_map):
        for i in range(column[0].get_position_count()):
            state.result *= column[0].get_int(i)

    combine_state = UDAF.combine_state

    def output_final(self, state, result_value):
        result_value.set_double(float(state.result))


class Lacking(UDTF):
    def before_start(self, parameters, configurations):
        configurations.set_output_data_type(Type.INT32)
"""
TRIGGER: Final = """
from headrace.trigger import (
    AlertManagerConfiguration, AlertManagerEvent, AlertManagerHandler, FailureStrategy, Trigger, Type
)


class ClusterAlertingExample(Trigger):
    alert_manager_handler = AlertManagerHandler()
    alert_manager_configuration = AlertManagerConfiguration("{url}/api/v2/alerts")
    labels = dict()
    annotations = dict()

    def on_create(self, attributes):
        self.alertname = "alert_test"
        self.labels["series"] = "root.ln.wf01.wt01.temperature"
        self.labels["value"] = ""
        self.labels["severity"] = ""
        self.annotations["summary"] = "high temperature"
        self.annotations["description"] = "{{{{.alertname}}}}: {{{{.series}}}} is {{{{.value}}}}"
        self.alert_manager_handler.open(self.alert_manager_configuration)

    def on_drop(self):
        self.alert_manager_handler.close()

    def fire(self, tablet):
        measurement_schema_list = tablet.get_schemas()
        for i in range(len(measurement_schema_list)):
            if measurement_schema_list[i].get_type() == Type.DOUBLE:
                values = tablet.values[i]
                for value in values:
                    if value > 100.0:
                        self.labels["value"] = str(value)
                        self.labels["severity"] = "critical"
                        alert_manager_event = AlertManagerEvent(self.alertname, self.labels, self.annotations)
                        self.alert_manager_handler.on_event(alert_manager_event)
                    elif value > 50.0:
                        self.labels["value"] = str(value)
                        self.labels["severity"] = "warning"
                        alert_manager_event = AlertManagerEvent(self.alertname, self.labels, self.annotations)
                        self.alert_manager_handler.on_event(alert_manager_event)
        return True


class Strict(Trigger):
    def get_failure_strategy(self):
        return FailureStrategy.PESSIMISTIC

    def fire(self, tablet):
        for i, schema in enumerate(tablet.get_schemas()):
            for row in range(tablet.row_size):
                if tablet.bit_maps[i].is_marked(row):
                    print("null", schema.get_measurement_id(), flush=True)
                elif tablet.values[i][row] > 100.0:
                    return False
        return True
"""


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CODE_NETWORK", "*/alerting")


@pytest.fixture
def home(connection: headrace.Connection) -> Iterator[Path]:
    """The folder of plugins of a connection with some rows."""
    folder: Path = connection.session.context.settings.home_path / "ext"
    for kind in ("udf", "trigger"):
        (folder / kind).mkdir(parents=True)
    (folder / "udf" / "ported.py").write_text(FUNCTIONS)
    connection.execute("create database root.sg")
    connection.execute("create timeseries root.sg.d.s1 with datatype=INT32")
    connection.execute("create timeseries root.sg.d.s2 with datatype=INT32")
    rows = "(1, 1, 10), (2, 2, null), (3, 7, 30), (20, 9, 40), (21, 9, 50)"
    connection.execute(f"insert into root.sg.d(time, s1, s2) values {rows}")
    yield folder
    current_hosts().close()


def fetch(connection: headrace.Connection, sql: str) -> list[tuple[Any, ...]]:
    rows = connection.execute(sql).fetchall()
    return [tuple(round(cell.timestamp() * 1000) if hasattr(cell, "timestamp") else cell for cell in row) for row in rows]


WINDOW: Final = "'display_window_begin'='{}', 'display_window_end'='{}'"
CALLS: Final = {
    "adder(s1, s2)": [(1, 11), (3, 37), (20, 49), (21, 59)],
    f"counter(s1, 'time_interval'='10', 'sliding_step'='10', {WINDOW.format(0, 40)})": [(0, 3), (20, 2)],
    f"sessions(s1, {WINDOW.format(2, 21)}, 'session_gap'='5')": [(2, 2), (20, 1)],
    f"states(s1, {WINDOW.format(2, 21)}, 'delta'='1.5')": [(2, 1), (3, 1), (20, 1)],
    "max(s1)": [(20, 9)],
    "inputs(s1, s2 + 1)": [(time, "root.sg.d.s1, root.sg.d.s2 + 1") for time in (1, 2, 3, 20, 21)],
}


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_functions_and_aggregates_return_what_the_guide_says(connection: headrace.Connection, home: Path) -> None:  # noqa: ARG001
    for name in ("Adder", "Counter", "Sessions", "States", "Max", "Inputs", "Avg", "Multiply"):
        connection.execute(f"create function {'my_' if name in ('Max', 'Avg') else ''}{name} as 'ported.{name}'")
    for call, points in CALLS.items():
        assert fetch(connection, f"select {call.replace('max(', 'my_max(')} from root.sg.d") == points, call
    sql = "select my_avg(s1), multiply(s1) from root.sg.d group by ([0, 40), 20ms)"
    assert fetch(connection, sql) == [(0, 10 / 3, 14.0), (20, 9.0, 81.0)]
    assert fetch(connection, "select my_avg(s1) from root.sg.d where s1 > 100") == [(None,)]
    with pytest.raises(TypeMismatchError, match="301: StateWindowAccessStrategy only support one input series for now"):
        connection.execute("select states(s1, s2, 'delta'='1') from root.sg.d")
    with pytest.raises(InvalidCodeError, match=r"ported\.Lacking does not define transform or transform_batch"):
        connection.execute("create function lacking as 'ported.Lacking'")


@pytest.mark.spark
@pytest.mark.usefixtures("network", "spark")
def test_the_trigger_sends_its_alerts(connection: headrace.Connection, home: Path) -> None:
    with receiving_alerts() as receiver:
        (home / "trigger" / "ported.py").write_text(TRIGGER.format(url=receiver.url))
        connection.execute("create database root.ln")
        connection.execute(
            "create stateless trigger alerting after insert on root.ln.wf01.wt01.* as 'ported.ClusterAlertingExample'"
        )
        connection.execute("create stateless trigger strict before insert on root.ln.wf02.** as 'ported.Strict'")
        values = "(1, 101.5, 'x'), (2, 60.0, 'y'), (3, 20.0, 'z')"
        connection.execute(f"insert into root.ln.wf01.wt01(time, temperature, status) values {values}")
        assert receiver.alerts == [
            {
                "labels": {
                    "alertname": "alert_test",
                    "series": "root.ln.wf01.wt01.temperature",
                    "value": value,
                    "severity": severity,
                },
                "annotations": {
                    "summary": "high temperature",
                    "description": f"alert_test: root.ln.wf01.wt01.temperature is {value}",
                },
            }
            for value, severity in (("101.5", "critical"), ("60.0", "warning"))
        ]
        with pytest.raises(TriggerFireError) as failed:
            connection.execute("insert into root.ln.wf01.wt01(time, temperature, status) values (4, null, 'x'), (5, 1.0, null)")
        assert failed.value.is_written
        connection.execute("insert into root.ln.wf02.wt01(time, a, b) values (1, null, 2.0), (2, 3.0, null)")
        with pytest.raises(TriggerFireError) as refused:
            connection.execute("insert into root.ln.wf02.wt01(time, a, b) values (3, 101.0, null)")
        assert not refused.value.is_written
        connection.execute("drop trigger alerting")

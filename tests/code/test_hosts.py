"""Classes of user code in code hosts: loading, calls, and the processes."""

from __future__ import annotations

import zipfile
from contextlib import closing
from pathlib import Path
from textwrap import dedent

import pyarrow as pa
import pytest

from headrace.code import hosts
from headrace.code.hosts import CallDescription, ClassDescription, HostedClass, HostLimits, current_hosts
from headrace.errors import ConfigurationError, FunctionError, InvalidCodeError, TypeMismatchError, UserCodeError
from headrace.settings import load
from headrace.udf import Parameters, Type
from tests.code.hosting import LONG, log_of, rows_of, run_series, write_code

CODE = """
from headrace.udf import UDAF, UDTF, MappableRowByRowAccessStrategy, Type

class Double(UDTF):
    def before_start(self, parameters, configurations):
        configurations.set_output_data_type(Type.DOUBLE).set_access_strategy(MappableRowByRowAccessStrategy())
    def transform(self, row, collector):
        return None if row.is_null(0) else row.get_double(0) * 2

class FastDouble(Double):
    def transform_batch(self, batch):
        import pyarrow.compute as pc
        return pc.multiply(batch["x0"], 2.0)

class Deltas(UDTF):
    # The difference to the value before, and the number of rows at the end.
    def before_start(self, parameters, configurations):
        configurations.set_output_data_type(Type.INT64)
        self.rows, self.before = 0, None
    def transform(self, row, collector):
        if self.rows:
            collector.put_long(row.get_time(), row.get_long(0) - self.before)
        self.rows, self.before = self.rows + 1, row.get_long(0)
    def terminate(self, collector):
        collector.put_long(-1, self.rows)
    def before_destroy(self):
        print("destroyed after", self.rows)

class Picky(Double):
    def validate(self, validator):
        validator.validate_required_attribute("k")

class FailsAt(Double):
    def before_start(self, parameters, configurations):
        super().before_start(parameters, configurations)
        self.time = parameters.get_int("time")
    def transform(self, row, collector):
        if row.get_time() == self.time:
            raise ArithmeticError("this is not my day")
        return 0.0
    def before_destroy(self):
        print("destroyed")

class Count(UDAF):
    def before_start(self, parameters, configurations):
        configurations.set_output_data_type(Type.INT64)
    def create_state(self):
        return []
    def add_row(self, state, row):
        state.append(row)
    def output_final(self, state, result_value):
        result_value.set_long(len(state))

class NoTransform(UDTF):
    def before_start(self, parameters, configurations):
        configurations.set_output_data_type(Type.INT64)

class NoInput(Count):
    add_row = UDAF.add_row

class Mean(UDAF):
    def before_start(self, parameters, configurations):
        configurations.set_output_data_type(Type.DOUBLE)
    def create_state(self):
        return [0.0, 0]
    def add_row(self, state, row):
        if row.get_time() < 0:
            raise ValueError("negative time")
        state[0] += row.get_long(0)
        state[1] += 1
    def combine_state(self, state, other):
        return [state[0] + other[0], state[1] + other[1]]
    def output_final(self, state, result_value):
        if state[1]:
            result_value.set_double(state[0] / state[1])

class FastMean(Mean):
    def add_input(self, state, columns, bit_map):
        import pyarrow.compute as pc
        values, times = (column.array for column in columns)
        return [state[0] + pc.sum(values).as_py(), state[1] + len(values)]

class Other:
    pass
"""


def write(folder: Path, class_name: str) -> HostedClass:
    """Store the code above, and return a description of one of its classes."""
    return write_code(folder, CODE, class_name)


@pytest.mark.parametrize(
    ("class_name", "description"),
    [
        ("Double", ClassDescription("UDTF", vectorized=False)),
        ("FastDouble", ClassDescription("UDTF", vectorized=True)),
        ("Count", ClassDescription("UDAF", vectorized=False)),
    ],
)
def test_a_class_is_described(tmp_path: Path, class_name: str, description: ClassDescription) -> None:
    assert write(tmp_path, class_name).describe() == description


def test_a_class_of_a_zip_is_described(tmp_path: Path) -> None:
    path = tmp_path / "content"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("package/__init__.py", "")
        file.writestr("package/functions.py", dedent(CODE))
    hosted = HostedClass(str(path), "", "package.functions", "Double", "ada")
    assert hosted.describe() == ClassDescription("UDTF", vectorized=False)


def test_a_file_without_the_class_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidCodeError, match="module functions has no class Missing"):
        write(tmp_path, "Missing").describe()
    with pytest.raises(InvalidCodeError, match="not a subclass"):
        write(tmp_path, "Other").describe()
    for name, method in (("NoTransform", "transform or transform_batch"), ("NoInput", "add_input or add_row")):
        with pytest.raises(InvalidCodeError, match=f"functions.{name} does not define {method}"):
            write(tmp_path, name).describe()


def test_a_file_that_has_changed_is_rejected(tmp_path: Path) -> None:
    hosted = write(tmp_path, "Double")
    Path(hosted.path).write_text("changed")
    with pytest.raises(InvalidCodeError, match="not the one that was registered"):
        hosted.describe()


def test_a_file_that_cannot_be_loaded_names_the_line(tmp_path: Path) -> None:
    hosted = write_code(tmp_path, "\n1 / 0\n", "Double")
    with pytest.raises(UserCodeError, match=r"functions.Double failed: ZeroDivisionError: division by zero at functions.py:2"):
        hosted.describe()


def test_settings_give_the_limits(tmp_path: Path) -> None:
    settings = load(home=tmp_path, code_memory="256m", code_timeout_s=5)
    limits = HostLimits.of(settings, "ada", "same")
    assert (limits.memory_bytes, limits.timeout_s, limits.network) == (256 << 20, 5, False)
    assert limits.log_folder == str(tmp_path / "logs" / "code")


@pytest.mark.parametrize(
    ("patterns", "granted"),
    [
        ("", set()),
        ("*", {"ada/fetch", "ada/send", "eve/fetch"}),
        ("ada/fetch", {"ada/fetch"}),
        ("eve/*, ADA/Send", {"eve/fetch", "ada/send"}),
        ("*/fetch", {"ada/fetch", "eve/fetch"}),
        ("a*a/f*", {"ada/fetch"}),
    ],
)
def test_the_network_is_granted_to_an_owners_function(tmp_path: Path, patterns: str, granted: set[str]) -> None:
    settings = load(home=tmp_path, code_network=patterns)
    names = ("ada/fetch", "ada/send", "eve/fetch")
    assert {name for name in names if HostLimits.of(settings, *name.split("/")).network} == granted
    assert HostLimits.of(settings, "ada/fetch", "more").network is (patterns == "*"), "the user is another one"


@pytest.mark.parametrize("patterns", ["True", "false", "fetch", "ada/fetch/more", "ada/fetch,,", "ada/"])
def test_what_does_not_name_owner_and_function_grants_nothing_and_is_an_error(tmp_path: Path, patterns: str) -> None:
    with pytest.raises(ConfigurationError, match="setting code_network"):
        load(home=tmp_path, code_network=patterns)


@pytest.mark.parametrize("class_name", ["Double", "FastDouble"])
def test_a_mappable_function_has_a_value_for_each_row(tmp_path: Path, class_name: str) -> None:
    hosted = write(tmp_path, class_name)
    assert hosted.configure(LONG) == CallDescription(Type.DOUBLE, mappable=True)
    points = run_series(hosted, LONG, rows_of([1, 2], [7]))
    assert points.to_pydict() == {"series": [0, 0, 1], "time": [0, 1, 0], "value": [2.0, 4.0, 14.0]}


@pytest.mark.parametrize("max_rows", [1, 2, 3, 100])
def test_each_series_has_an_instance_however_its_rows_are_divided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_rows: int
) -> None:
    monkeypatch.setattr(hosts, "MAX_REQUEST_ROWS", max_rows)
    hosted = write(tmp_path, "Deltas")
    points = run_series(hosted, LONG, rows_of([1, 3, 6, 10], [5], [9, 8]))
    expected = [(0, 1, 2), (0, 2, 3), (0, 3, 4), (0, -1, 4), (1, -1, 1), (2, 1, -1), (2, -1, 2)]
    assert list(zip(*points.to_pydict().values(), strict=True)) == expected
    log = log_of(hosted)
    assert log.splitlines() == ["destroyed after 4", "destroyed after 1", "destroyed after 2"]


def test_no_rows_have_no_points(tmp_path: Path) -> None:
    points = run_series(write(tmp_path, "Deltas"), LONG, rows_of([1]).slice(0, 0))
    assert (points.num_rows, points.schema.types) == (0, [pa.int64()] * 3)


def test_calls_that_alternate_do_not_mix(tmp_path: Path) -> None:
    hosted = write(tmp_path, "Deltas")
    ones, tens = hosted.open_series(LONG), hosted.open_series(LONG)
    values = []
    for index in range(3):
        parts = [
            stream.process(rows_of([step * (index + 1)], start=index), more=index < 2) for stream, step in ((ones, 1), (tens, 10))
        ]
        values.append(tuple(part["value"].to_pylist() for part in parts))
    assert values == [([], []), ([1], [10]), ([1, 3], [10, 3])]


def test_a_call_that_is_closed_before_its_end_frees_its_instance(tmp_path: Path) -> None:
    hosted = write(tmp_path, "Deltas")
    with closing(hosted.open_series(LONG)) as stream:
        stream.process(rows_of([1]), more=True)
    assert log_of(hosted) == "destroyed after 1\n"


def test_a_last_part_without_rows_ends_the_series(tmp_path: Path) -> None:
    stream = write(tmp_path, "Deltas").open_series(LONG)
    stream.process(rows_of([1]), more=True)
    assert stream.process(rows_of([]), more=False).to_pylist() == [{"series": 0, "time": -1, "value": 1}]


def test_a_call_whose_host_was_replaced_between_its_rows_fails(tmp_path: Path) -> None:
    hosted = write(tmp_path, "Deltas")
    stream = hosted.open_series(LONG)
    stream.process(rows_of([1]), more=True)
    current_hosts().host(hosted).close()
    with pytest.raises(UserCodeError, match=r"functions.Deltas failed .*host was replaced in the middle of the rows"):
        stream.process(rows_of([2], start=1), more=False)


def test_parameters_that_a_function_rejects_are_a_type_error(tmp_path: Path) -> None:
    hosted = write(tmp_path, "Picky")
    with pytest.raises(TypeMismatchError, match=r'701: attribute "k" is required but was not provided.'):
        hosted.configure(LONG)
    assert hosted.configure(Parameters([Type.INT64], {"k": "1"})).output_type is Type.DOUBLE


def test_a_failure_names_function_row_and_line_and_frees_the_instance(tmp_path: Path) -> None:
    hosted = write(tmp_path, "FailsAt")
    expected = r"functions.FailsAt failed on series 1 at time 1: ArithmeticError: this is not my day at functions.py:\d+"
    with pytest.raises(FunctionError, match=expected) as failure:
        run_series(hosted, Parameters([Type.INT64], {"time": "1"}), rows_of([1], [1, 2, 3]))
    assert 'raise ArithmeticError("this is not my day")' in failure.value.traceback
    assert log_of(hosted).startswith("destroyed\ndestroyed\nTraceback")
    assert run_series(hosted, Parameters([Type.INT64], {"time": "9"}), rows_of([1])).num_rows == 1


GROUPS = pa.table({"group": [0, 1, 0], "time": [0, 0, 1], "x0": [1, 5, 2]})


@pytest.mark.parametrize("class_name", ["Mean", "FastMean"])
def test_an_aggregate_merges_states_and_returns_values(tmp_path: Path, class_name: str) -> None:
    hosted = write(tmp_path, class_name)
    assert hosted.configure_aggregate(LONG) == CallDescription(Type.DOUBLE, mergeable=True)
    rows = GROUPS.append_column("state", pa.nulls(3, pa.binary()))
    merged = hosted.merge_states(LONG, rows, 3)
    assert merged["value"].to_pylist() == [1.5, 5.0, None]
    again = rows.set_column(3, "state", merged["state"]).set_column(0, "group", pa.array([0, 1, 2]))
    assert hosted.merge_states(LONG, pa.concat_tables([rows, again]), 3)["value"].to_pylist() == [1.5, 5.0, None]
    assert hosted.aggregate_values(LONG, GROUPS, 3).to_pylist() == [1.5, 5.0, None]


def test_a_failure_of_an_aggregate_names_the_group(tmp_path: Path) -> None:
    rows = pa.table({"group": [3], "time": [-1], "x0": [1]})
    with pytest.raises(FunctionError, match=r"functions.Mean failed on group 3 at time -1: ValueError: negative time"):
        write(tmp_path, "Mean").aggregate_values(LONG, rows, 4)

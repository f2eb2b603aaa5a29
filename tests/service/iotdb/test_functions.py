"""CREATE FUNCTION and DROP FUNCTION: functions of IoTDB's library under names of the user's."""

from __future__ import annotations

import pytest

import headrace
from headrace.errors import Error, ExistsError, NotFoundError, ProgrammingError
from headrace.queries.continuous_query import bind_body, recorded_query

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

LIBRARY = "org.apache.iotdb.library.string"
ANSWERS = {
    "split(s, 'regex'=',')": [4, 0, 1, 3, None],
    "split(s, 'regex'=',', 'index'='1')": ["B", None, None, "", None],
    "split(s, 'regex'='[,+]+')": [4, 0, 1, 2, None],
    "match(s, 'regex'='[A-Z]([+-])')": ["A+", None, None, None, None],
    "match(s, 'regex'='[A-Z]([+-])', 'group'='1')": ["+", None, None, None, None],
    "match(s, 'regex'='[(](A)', 'group'='2')": [None] * 5,
    "swap(s, 'target'=',', 'replace'='/')": ["A/B/A+/B-", "//", "", "x//y", None],
    "swap(s, 'target'=',', 'replace'='/', 'limit'='1')": ["A/B,A+,B-", "/,", "", "x/,y", None],
    "swap(s, 'target'=',', 'replace'='/', 'limit'='1', 'offset'='1')": ["A,B/A+,B-", ",/", "", "x,/y", None],
    "swap(s, 'target'=',', 'replace'='', 'limit'='1', 'reverse'='true')": ["A,B,A+B-", ",", "", "x,y", None],
    "swap(s, 'target'=',', 'replace'='/', 'offset'='1', 'reverse'='true')": ["A/B/A+,B-", "/,", "", "x/,y", None],
    "swap(s, 'target'='.', 'replace'='/')": ["A,B,A+,B-", ",,", "", "x,,y", None],
    "rex(s, 'regex'='([A-Z])([+-])', 'replace'='$2$1')": ["A,B,+A,-B", ",,", "", "x,,y", None],
    "rex(s, 'regex'='([A-Z])', 'replace'='<$1>', 'limit'='1', 'offset'='1')": ["A,<B>,A+,B-", ",,", "", "x,,y", None],
    "rex(s, 'regex'='([A-Z])', 'replace'='<$1>', 'limit'='2', 'reverse'='true')": ["A,B,<A>+,<B>-", ",,", "", "x,,y", None],
}
"""The results of IoTDB's own library for five texts, the last of them NULL."""
CLASSES = {"split": "UDTFRegexSplit", "match": "UDTFRegexMatch", "swap": "UDTFStrReplace", "rex": "UDTFRegexReplace"}


@pytest.fixture
def library(connection: headrace.Connection) -> headrace.Connection:
    """The connection with the functions of the library and a series of texts."""
    for name, class_name in CLASSES.items():
        connection.execute(f"create function {name} as '{LIBRARY}.{class_name}'")
    connection.execute("create timeseries root.t.d.s TEXT")
    connection.execute("create timeseries root.t.d.n INT32")
    connection.execute("insert into root.t.d(time, s, n) values (1, 'A,B,A+,B-', 1), (2, ',,', 1), (3, '', 1), (4, 'x,,y', 1)")
    connection.execute("insert into root.t.d(time, n) values (5, 1)")
    return connection


def test_functions_of_the_library_return_what_iotdb_returns(library: headrace.Connection) -> None:
    columns = list(ANSWERS)
    rows = library.execute(f"select {', '.join(columns)}, n from root.t.d").fetchall()
    for at, column in enumerate(columns):
        assert [row[at + 1] for row in rows] == ANSWERS[column], column


def test_a_column_is_named_as_the_call_is_written(library: headrace.Connection) -> None:
    cursor = library.execute("select Split(s, 'regex'=',') from root.t.d")
    assert [column[0] for column in cursor.description or ()] == ["Time", 'Split(root.t.d.s, "regex"=",")']


REFUSED = {
    "select match(s, 'regex'='(') from root.t.d": "Illegal regex",
    "select match(s) from root.t.d": 'attribute "regex" is required',
    "select match(s, 'regex'='') from root.t.d": "regexp has to be a valid regular expression.",
    "select match(s, 'regex'='a', 'group'='-1') from root.t.d": "group index has to be a non-negative integer.",
    "select split(s, 'regex'=',', 'index'='-2') from root.t.d": "index must a non-negative integer",
    "select swap(s, 'target'='', 'replace'='x') from root.t.d": "target should not be empty",
    "select swap(s, 'target'='a', 'replace'='x', 'limit'='-2') from root.t.d": "limit has to be -1",
    "select swap(s, 'target'='a', 'replace'='x', 'offset'='-1') from root.t.d": "offset has to be non-negative",
    "select swap(n, 'target'='a', 'replace'='x') from root.t.d": "the data type of the input series",
}


@pytest.mark.parametrize(("statement", "message"), REFUSED.items())
def test_wrong_arguments_are_refused(library: headrace.Connection, statement: str, message: str) -> None:
    with pytest.raises(Error) as refused:
        library.execute(statement)
    assert message in refused.value.message
    assert refused.value.status == 701


def test_functions_are_shown_and_dropped(library: headrace.Connection) -> None:
    shown = [row for row in library.execute("show functions").fetchall() if row[1] == "external UDTF"]
    assert shown == [(name.upper(), "external UDTF", f"{LIBRARY}.{CLASSES[name]}") for name in sorted(CLASSES)]
    library.execute("drop function SPLIT")
    with pytest.raises(Error, match=r"split does not exist|SPLIT has not been registered"):
        library.execute("select split(s, 'regex'=',') from root.t.d")
    assert library.execute("explain create function split as 'org.apache.iotdb.library.string.UDTFRegexSplit'").fetchall()


def test_names_are_unique_and_built_in_functions_stay(library: headrace.Connection) -> None:
    for name in ("Split", "abs", "count"):
        with pytest.raises(ExistsError, match=f"301: Failed to create UDF \\[{name.upper()}], the same name UDF has been created"):
            library.execute(f"create function {name} as '{LIBRARY}.UDTFRegexSplit'")
    with pytest.raises(ProgrammingError, match="301: Built-in function ABS can not be deregistered"):
        library.execute("drop function abs")
    for name in ("nope", "count"):
        with pytest.raises(NotFoundError, match=r"301: Failed to drop UDF .*, this UDF has not been created"):
            library.execute(f"drop function {name}")


def test_a_continuous_query_may_call_a_registered_function(library: headrace.Connection) -> None:
    query = "select last_value(split(s, 'regex'=',')) into root.t.x(a) from root.t.d"
    library.execute(f"create cq c resample every 1h begin {query} end")
    assert library.execute("show cqs").fetchall()[0][0] == "c"


def test_the_library_has_names_of_its_own(library: headrace.Connection) -> None:
    calls = "Median(n), skew(n)"
    assert library.execute(f"select {calls} from root.t.d").fetchall()[0][1] == 1.0
    assert library.execute("select regexsplit(s, 'regex'=',') from root.t.d limit 1").fetchall()[0][1] == 4
    assert library.execute("select dtw_match(n, 'pattern'='1,1,1', 'threshold'='0') from root.t.d").fetchall()
    library.execute(f"create function median as '{LIBRARY}.UDTFRegexSplit'")
    assert library.execute("select median(s, 'regex'=',') from root.t.d limit 1").fetchall()[0][1] == 4


def test_a_continuous_query_keeps_the_function_that_it_calls(library: headrace.Connection) -> None:
    query = "select last_value(spline(n, 'points'='2')) into root.t.y(a) from root.t.d"
    library.execute(f"create cq c resample every 1h begin {query} end")
    library.execute(f"create function spline as '{LIBRARY}.UDTFRegexSplit'")
    context = library.session.context
    (record,) = context.catalog.jobs.all()
    recorded = recorded_query(record.definition.sql, "iotdb")
    assert bind_body(recorded, 0, 3_600_000, context, functions=record.definition.functions).plan is not None
    with pytest.raises(Error, match="data type of the input series"):
        bind_body(recorded, 0, 3_600_000, context)

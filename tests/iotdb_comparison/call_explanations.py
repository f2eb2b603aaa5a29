"""Differences of calls of registered functions that are not Headrace's faults, with the reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.iotdb_comparison.confirmations import (
    compares_nan,
    divides_by_zero,
    equals_columns_alone,
    equals_operation_of_operands,
    equals_without_nan,
    estimates_within_error,
    lacks_input,
    lacks_points,
    refuses_windows_alone,
    shortens_calls,
    writes_text_alike,
)
from tests.iotdb_comparison.explaining import Explanation, explain
from tests.iotdb_comparison.registered import REGISTERED

CALL: Final = rf"\b({'|'.join(REGISTERED)})\("
"""A call of a registered function."""
WINDOWED: Final = (
    r"\b(completeness|consistency|timeliness|validity|dtw|ptnsym|lof2?|twosidedfilter|valuerepair|timestamprepair|valuefill|sample"
    r"|period|window_start_end|accumulator|counter)\("
)
"""A call of a function of windows of rows, many of which have the whole series as one window."""
SEVERAL: Final = r"(\*|\), |, \w+\(|\bs(?P<one>\d+)\b.*\bs(?!(?P=one)\b)\d+\b|from \S+, |\) [-+*] )"
"""Several series, or expressions."""
AGGREGATE: Final = r"(avg|max_value|min_value|count|last_value|first_value|sum|udaf_\w+)\("

WITH_NAN: Final = r"\bs[34]\b.* from (\S+, )?\S*(\.(d1|e|n)\b|\*)"
"""A query of series with NaN."""
SEVERAL_INPUTS: Final = r"\b(adder|two_sum|cov|pearson|dtw|xcorr|conv|deconv|lof2|ifft|consecutive\w+)\("

CALL_EXPLANATIONS: Final[Sequence[Explanation]] = (
    explain("the server does not end the query", r"DriverTask \S+ is aborted by timeout"),
    explain(
        "the server fails with an internal error",
        r"NullPointerException|because .* is null|cannot be cast to class|INTERNAL_SERVER_ERROR|aborted by internal error"
        r"|Index -?\d+ out of bounds|IoTDB('s| refuses) 301: (queue has been destroyed|domainStart must be less than domainEnd)",
    ),
    explain(
        "the function fails in the server with an exception that it does not mean to throw",
        r"^(answered|status).*IoTDB('s| refuses) 301: (java\.lang\.RuntimeException: )?Error occurred during executing UDT?A?F#.*"
        r"(java\.\w+\.\w+|NoNumberException|org\.apache\.commons\.math3\.\S+)",
    ),
    explain(
        "the server checks the attribute when the function is executed",
        r"^status: ours 701: (Illegal method\.?)\n.*IoTDB's 301: Error occurred during executing UDTF#.*: \1$",
    ),
    explain("a function that sets no access strategy reads rows here", r"IoTDB('s| refuses) 301: Access strategy is not set\."),
    explain("the server knows the quotient under another name only", r"Result should be 'quotient' or 'remainder'", r"deconv\("),
    explain(
        "in windows, the server counts rows without a value of the argument, and reads 0 there",
        r"^(rows|value)",
        rf"^(?=.*{WINDOWED})(?=.*{SEVERAL})",
    ),
    explain(
        "the server ends a result at the first point whose time is not later than that of the point before",
        r"^rows",
        r"'access'='time'.*'slidingStep'|consecutivewindows|envelope\(",
    ),
    explain(
        "the server ends a result there, so that fewer points are written",
        r"^value: row \d+, Written: ours \d+, IoTDB's \d+\n",
        r"envelope\(.* into ",
    ),
    explain(
        "the server ends a result there, and a spline of more points than ticks has several at one",
        r"^rows: ours \d+, IoTDB's \d+; row \d+: ours \(\d{1,2}, ",
        r"spline\(.* from \S*\*",
    ),
    explain(
        "in the server, all calls of segment share one list of points",
        r"^(rows|value)",
        r"segment\(.*(segment\(| from (\S+, |\S*\*))",
        equals_columns_alone,
    ),
    explain(
        "the server has a row without a value for each window whose aggregate has none, before the points",
        r"^(rows|value: row 0, Time)",
        rf"{CALL}.*{AGGREGATE}.* group by ",
    ),
    explain("the server calls IS NULL for the points of the function only", r"^rows", rf"^select {CALL}.*\) is null"),
    explain(
        "the server returns the points of qlb out of order, and loses those that are beside others", r"^(rows|value)", r"qlb\("
    ),
    explain("the distance of series with NaN is NaN in the server", r"^value.*\bdtw\(.*IoTDB's nan\n", r"\bdtw\("),
    explain("the quantile of fewer values than 1 / rank is NaN in the server", r"^value.*quantile\(.*IoTDB's nan\n", r"quantile\("),
    explain(
        "the server counts NaN in quantiles, also of nothing but NaN",
        r"^(value|rows: ours \d+, IoTDB's \d+; row \d+: ours (None|\(0, ))",
        rf"quantile\(.*{WITH_NAN}",
    ),
    explain(
        "the spread of no number is infinite in the server",
        r"^(rows: ours \d+, IoTDB's \d+; row \d+: [^\n]*IoTDB's \(0, [^)]*\binf\b"
        r"|value: row \d+, [^\n]*\bspread\([^\n]*: ours None, IoTDB's -?inf\n)",
        rf"spread\(({CALL}|.*{WITH_NAN})",
    ),
    explain(
        "the skewness of equal values depends on rounding in the server; that of 64 values is less than 8",
        r"^value: row \d+, [^\n]*\bskew\([^\n]*: ours nan, IoTDB's -?(inf|[\d.]+[eE]\+?\d+|\d{3,}\.\d+)\n",
        r"skew\(",
    ),
    explain(
        "the server loses the digits of large numbers in squares",
        r"^value: row \d+, [^\n]*\b(zscore|skew)\(window_start_end\(",
        r"(zscore|skew)\(window_start_end\(",
    ),
    explain(
        "beside functions over series, NaN is greater than all numbers in the server",
        r"^value: row \d+, [^\n]*\) > 0\.5: ours False, IoTDB's True\n",
        r"^select .*\) > 0\.5 from ",
        compares_nan,
    ),
    explain(
        "the server does not undo a wavelet transform of several layers",
        r"^value: row \d+, [^\n]*\bidwt\([^()]*\"layer\"=\"2\"",
        r"idwt\(",
    ),
    explain(
        "the server does not undo a wavelet transform of several layers",
        r"^value: row \d+, \S*_w\.c\d+\.x\.a: ",
        r"^select idwt\([^;]*'layer'='2'[^;]* into [^;]*; select \* from \S+$",
    ),
    explain(
        "the server does not end a series of instants that would end before its first",
        r"^answered: 0 rows of .*IoTDB refuses 301: Java heap space",
        r"re_sample\((\w+\([^()]*\))?[^()]*'end'",
    ),
    explain(
        "in windows, the server reads 0 in rows without a value of the argument, so that it has values enough",
        r"^refused: 301: At least two non-NaN values are needed",
        rf"^(?=.*valuerepair\()(?=.*{SEVERAL})",
        refuses_windows_alone,
    ),
    explain(
        "the server loses digits of covariances, which CAST to TEXT shows",
        r"^value: row \d+, CAST\((cov|pearson)\([^\n]*: ours '(-?\d+\.\d{10})\d+', IoTDB's '\2\d+'\n",
        r"cast\((cov|pearson)\(",
        writes_text_alike,
    ),
    explain(
        "the server transforms nothing by a wavelet without coefficients",
        r'^refused: 701: set "method", or "coef" to numbers .*'
        r"IoTDB answers (0 rows|\d+ rows of [^\n]*: \(\(\d+, None\)(, \(\d+, None\))?,?\)$)",
        r"\bi?dwt\(",
    ),
    explain(
        "the server finds all of a series of nothing but NaN missing",
        r"^value: row \d+, missdetect\([^\n]*\bs[34]\b[^\n]*: ours False, IoTDB's True\n",
        r"missdetect\(s[34]\b.* from (\S+, )?\S*(\.n\b|\*)",
    ),
    explain(
        "the server repairs the times of several series as if they were one, also those of today and of the year 1970",
        r"^answered: .*IoTDB refuses 301: Java heap space",
        r"timestamprepair\([^()]*\) from \S*\*",
    ),
    explain(
        "the server cannot fit its model to any series",
        r"^answered: .*UDFException: Cannot fit AR\(1\) model",
        r"valuefill\(.*'method'='ar'",
    ),
    explain(
        "in the server, a first row at time 0 belongs to the run that begins at -gap",
        r"^value: row \d+, consecutivewindows\((\S+\.f\.[^\n]*|[^\n]*\n[^\n]*\n *IoTDB's \(-\d+, '\S+\.f')",
        r"consecutivewindows\(.*'gap'=",
    ),
    explain(
        "the server loses the first points of functions that return them at the end, beside series with NULL",
        r"^rows: ours \d+, IoTDB's \d+; row \d+: ours \(\d+, [^()]*\), IoTDB's (\(|None)",
        rf"^select {CALL}[^;]*\) [-+*] s\d from \S+\.(d1|d2|e)\b",
        equals_operation_of_operands,
    ),
    explain(
        "the server finds no pattern in series with NaN, and returns what dtw_match does",
        r"^value.*IoTDB's (None|'\[\{\"distance\":\d+\.\d{6},)",
        rf"pattern_match\(.*{WITH_NAN}",
    ),
    explain("the server compares windows with NaN in their first row only", r"^value", rf"dtw_match\(.*{WITH_NAN}"),
    explain(
        "the model of a series with NaN is NaN in the server",
        r"^value: row \d+, (a|[^\n]*\bar\([^\n]*): [^\n]*IoTDB's nan\n",
        rf"\bar\(.*{WITH_NAN}",
    ),
    explain(
        "the server moves the values of minmax to the times of NaN before them",
        r"^(rows|value: row \d+, (Time|minmax\())",
        rf"minmax\((?![^()]*'compute'='stream').*{WITH_NAN}",
        equals_without_nan,
    ),
    explain(
        "the server distinguishes -0.0 from 0.0 among distinct numbers", r"^rows", r"distinct\(\w*\(?s[34]\b.* from \S*(\.w\b|\*)"
    ),
    explain(
        "many combinations of series, and queries that were aborted, take more memory than the server has",
        r"^answered: .*(Memory is not enough for current query|There is not enough memory to execute current fragment instance)",
    ),
    explain(
        "the server has no quality of a window of nothing but NaN",
        r"^answered.*UDFException: At least two non-NaN values are needed",
        r"(completeness|consistency|timeliness|validity)\(",
    ),
    explain(
        "the server adds points of timestamp 0 before all points that it keeps",
        r"^(value: row 0, Time: ours \d+, IoTDB's 0\n|rows.*IoTDB's \(0, )",
        r"timestamprepair\(",
    ),
    explain(
        "the server reads 0 where an expression of several series has no value",
        r"^value",
        r"(dtw|pattern)_match\((\w+ \* \w+|[^()]*\) *,)",
    ),
    explain(
        "the server estimates 0 where its estimate has no bound", r"^value.*\bmad\(.*IoTDB's (-?[01]\.0\b|'0|False)", r"\bmad\("
    ),
    explain("the server returns distinct numbers in the order of a hash table", r"^value.*\bdistinct\(", r"\bdistinct\("),
    explain("in the server, NaN is greater than all numbers in WHERE", r"^(rows|value)", r"where s4 > ", equals_without_nan),
    explain(
        "the server sorts -0.0 before 0.0, so that others of equal values are among the greatest or least",
        r"^(rows|value)",
        r"(top|bottom)_k\([^()]*\bs[34]\b",
    ),
    explain(
        "the server takes states out of the sum of overlapping windows, which NaN never leaves, and leaves 0 for no rows",
        r"^value",
        r"udaf_(avg|sum).* group by \([^)]*\), \d+\w+, \d+\w+\)",
    ),
    explain(
        "the server finds a function that WHERE cannot have when it is executed, and not at all without rows",
        r"^(status: ours 701: the function \w+ is not allowed in WHERE.*IoTDB's 301: Filter can not contain"
        r"|refused: 701: the function \w+ is not allowed in WHERE.*IoTDB answers 0 rows)",
        "where",
    ),
    explain("the model of nothing but NaN is NaN in the server", r"^refused: 301: a model of order .* the series has 0", r"\bar\("),
    explain(
        "the server calls a function for a series without rows if its partition of the time has rows, be it of other series",
        r"^(value: .*ours None, IoTDB's |rows: ours \d+, IoTDB's \d+;.*IoTDB's \(0, )",
        rf"^select .*{CALL}",
        lacks_input,
    ),
    explain(
        "the server calls a function for the points of another one even if it returns none",
        r"^rows: ours 0, IoTDB's \d+;.*IoTDB's \(0, ",
        rf"^select {CALL}\w+\(",
        lacks_points,
    ),
    explain(
        "the server calls a function for a series without rows, and fails",
        r"^answered: .*UDFException: Illegal input",
        r"\bar\(.* from (\S+, |\S*\*)",
        equals_columns_alone,
    ),
    explain(
        "the server estimates quantiles with an error, which Headrace finds exactly",
        r"^value.*\b(median|percentile)\(",
        r"\b(median|percentile)\([^()]*'error'='0\.",
        estimates_within_error,
    ),
    explain(
        "the server calls a function without the series that a device lacks, in a column of its own",
        r"^names",
        r"^select \w+\(s\d+, s\d+\b.* align by device",
        shortens_calls,
    ),
    explain(
        "the repair takes more steps than the setting allows; the server does not limit them",
        r"^refused: 301: valuerepair takes \S+ steps for reducing changes of speed",
        r"valuerepair\(.*'lsgreedy'",
    ),
    explain(
        "the server divides by the last coefficient of a polynomial even if it is 0",
        r"^(value|rows).*IoTDB's [^\n]*\b(inf|nan)\b",
        r"^select .*\bdeconv\(",
        divides_by_zero,
    ),
    explain(
        "the angle of a negative number is pi or -pi, by the sign of an imaginary part of 0",
        r"^value: row \d+, fft\([^\n]*: ours -?3\.14159\d*, IoTDB's -?3\.14159",
        r"\bfft\([^()]*'result'='angle'",
    ),
    explain(
        "the server loses points of functions of several inputs if one is a function that returns its points later",
        r"^(rows|value)",
        rf"{SEVERAL_INPUTS}[^;]*({CALL}|(top|bottom)_k\()",
    ),
    explain(
        "without any row, the server lists the targets if its partitions of the queried time have rows",
        r"^rows: ours 0, .*, 0\)",
        r"^select [^;]* into [^;]*$",
    ),
)

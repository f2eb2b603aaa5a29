"""Differences that are not Headrace's faults, with the reasons. `docs/reference/differences-iotdb.md` has those that users meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.iotdb_comparison.explaining import Explanation, explain
from tests.iotdb_comparison.functions import SERIES_FUNCTIONS

SERIES: Final = rf"\b({'|'.join(SERIES_FUNCTIONS)})\("
"""A call of a time-series function."""

EXPLANATIONS: Final[Sequence[Explanation]] = (
    explain(
        "the server fails with an internal error",
        r"NullPointerException|because .* is null|cannot be cast to class|INTERNAL_SERVER_ERROR|Index \d+ out of bounds for length"
        r"|IoTDB('s| refuses) 301: org\.apache\.tsfile\.read\.common\.block\.column\.\w+",
    ),
    explain(
        "the statement has two errors, of which each server reports one",
        r"^status: ours 701.*IoTDB's 301: (The Type of three sub|.*cannot be cast to|Unsupported|Invalid input|For input string)"
        r"|^status: ours 301: ([A-Z_]+ with slidingWindow|This type|.*cannot be cast to|Unsupported|For input string).*IoTDB's 701",
    ),
    explain(
        "the server fails to find the mode of a flushed file in its statistics",
        r"^answered.*\n\s*IoTDB refuses 301: org\.apache\.iotdb\.\S+ModeAccumulator$",
        r"mode\(",
    ),
    explain(
        "the server forms groups by variation of NaN one by one, or one only",
        r"^(rows|value)",
        r"group by variation\(.*(sqrt|ln|log10|asin|acos|%|/)",
    ),
    explain(
        "the server gives no type to OR of a missing series and a comparison of one",
        r"^answered: 0 rows.*IoTDB refuses 701: The output type of the expression in WHERE clause .* data type: null",
        r"where .*s\d+ (\||or) ",
    ),
    explain(
        "the server fails for a missing series in HAVING",
        r"IoTDB refuses 301: Unsupported statement type: org\.apache\.iotdb\.\S+\.NullOperand$",
        "having",
    ),
    explain("the server fails to rewrite NOT", r"contains a not! Did you forget", r"where.*(not|!) "),
    explain("the server ignores the NOT of NOT LIKE and NOT REGEXP", r"^(rows|value)", r"not (like|regexp)"),
    explain("in the server, NOT of a comparison with no series is true", r"^(rows|value)", r"where.*(not|!) \("),
    explain(
        "the server drops rows without a value of the series in `time < 5 OR series = 1`", r"^(value|rows)", r"where time .*\bor\b"
    ),
    explain("the server reads the choices of IN as BOOLEAN if the series is missing", r"cannot be cast to \[BOOLEAN\]", r" in \("),
    explain("the server does not compare integers with decimals in WHERE", r"cannot be cast to \[INT", "where"),
    explain(
        "the server takes a condition after BETWEEN into the range", r"expected data type\(s\): \[BOOLEAN\]", r"between .*(and|&)"
    ),
    explain(
        "the server reads the choices of a DATE as numbers or not at all", r"cannot be cast|Invalid date format", r"s9 (not )?in"
    ),
    explain(
        "the server finds no change points of STRING, BLOB, DATE and TIMESTAMP", r"^(rows|value)", r"change_points\(s(7|8|9|10)\b"
    ),
    explain(
        "in WHERE, the server calls concat for rows in which its argument has a value only", r"^(rows|value)", r"where .*concat\("
    ),
    explain("the server drops arguments of concat that a device lacks", r"^names:.*concat\(", r"concat\([^)]*,.* align by device"),
    explain(
        "the server counts rows without a value of the argument, and reads 0 there",
        r"^(rows|value)",
        r"(sample|m4)\(.*\)( as [^,]+)?, |, [^']*(sample|m4)\(|group by .*(sample|m4)\(|(sample|m4)\(.* from \S*(\*|, )"
        r"|(sample|m4)\([^()]*\)\)? [-+*/%<>=!]|[-+*/%<>=] [-(]*\w*(sample|m4)\(|(sample|m4)\([^,]*\bs\d+\b[^,]*\bs\d+\b"
        r"|(sample|m4)\(.* where .*\bs\d+\b",
    ),
    explain(
        "the server multiplies times and values of a FLOAT in single precision to find the distance from a line",
        r"^(rows|value)",
        r"outlier_sample\(-?\(?s[34]\)?, [^()]*'type'='stendis'",
    ),
    explain(
        "the server does not end arithmetic of a sampling function and one of the greatest or least points",
        r"^answered.*DriverTask \S+ is aborted by timeout",
        r"_sample\([^()]*\) [-+*/%] (top|bottom)_k\(|(top|bottom)_k\([^()]*\) [-+*/%] \w+_sample\(",
    ),
    explain(
        "the server returns the points of M4 window by window, also of windows that overlap", r"^(rows|value)", r"m4\(.*slidingStep"
    ),
    explain(
        "the server finds count_time at the top only",
        r"Count_time aggregation (can only exist alone|function can not be used with having)",
        r"\w\(count_time",
    ),
    explain(
        "the server replaces text of a STRING in queries without time-series functions only",
        r"^answered.*IoTDB refuses 301: Unsupported dataType: Unsupported data type: STRING",
        r"^select .*\breplace\(s7, ",
    ),
    explain(
        "the server does not combine CASE with time-series functions",
        r"CASE expression cannot be used with non-mappable",
        r"case .*\bwhen",
    ),
    explain(
        "the server has no aggregates of time-series functions in HAVING", r"Filter can not contain Non-Mappable UDF", "having"
    ),
    explain(
        "the server casts STRING, DATE and TIMESTAMP in queries without time-series functions only",
        r"^answered.*IoTDB refuses 301: Unsupported source dataType: (STRING|DATE|TIMESTAMP)",
        rf"cast\(.*'\w+'=|'\w+'=.*cast\(|{SERIES}",
    ),
    explain("the server cannot cast BOOLEAN to BOOLEAN", r'For input string: "(true|false)', "as boolean"),
    explain(
        "the server misses series that a device lacks",
        r"Cross-device queries are not supported|Wrong inputDataTypes size|\[count_if\] only supports",
        "align by device",
    ),
    explain(
        "the server compares a TEXT with numbers as text in BETWEEN of WHERE",
        r"^refused: 701: .*actual data type: (INT|DOUBLE).*\[TEXT, STRING\]|^status: ours 701.*\[TEXT, STRING\]",
        r"where .* (not )?between",
    ),
    explain("the server reads text constants as numbers in BETWEEN of WHERE", r"^refused: 701.*IoTDB answers", r"between '"),
    explain("the server does not compare a DATE with a text outside of WHERE", r"BinaryType", "s9"),
    explain("the server takes a condition after BETWEEN into the range", r"three subExpression should be", "between"),
    explain("the server loses the time in max_by with ALIGN BY DEVICE", r"Cannot find column .Time."),
    explain(
        "the server takes max_by(time, x) for a column of each device", r"alias '\w+' can only be", r"_by\(time.* as .* by device"
    ),
    explain(
        "the server keeps the constants of count_if for devices that lack its condition",
        r"^answered.*IoTDB refuses 701: alias '[^']+' can only be",
        r"count_if\(.* as .* align by device",
    ),
    explain(
        "the server merges the bytes of max_by(time, x) of several types", r"GROUP BY LEVEL: the data types", r"_by\(time.*level"
    ),
    explain(
        "in the server, x of one of several equal y is max_by's by chance",
        r"^value: row \d+, ([^:]*(max|min)_by\(|(a|b1|x y|value): )",
        r"_by\((?!time).*level",
    ),
    explain(
        "the server takes the first or last value of one instant from different series in databases of equal devices",
        r"^value: row \d+, ([^:]*(first|last)_value\(|(a|b1|x y|value): )",
        r"(first|last)_value\(.*group by .*level",
    ),
    explain(
        "the server takes a condition after BETWEEN into the range",
        "^refused: 701: The output type of the expression in WHERE.*IoTDB answers 0 rows",
        r"where.*between \S+ and \S+ (and|&&?) ",
    ),
    explain(
        "the server takes a condition after BETWEEN into the range",
        "^(rows|value)",
        r"where.*between \S+ and \S+ (and|&&?) .* is (not )?null",
    ),
    explain(
        "the server takes a condition after BETWEEN into the range",
        r'^answered.*IoTDB refuses 301: For input string: "(true|false)"',
        r"where.*between \S+ and \S+ (and|&&?) ",
    ),
    explain(
        "in the server, x of one of several equal y in windows that overlap depends on the order of the result",
        r"^value: row \d+, .*(max|min)_by\(",
        r"(max|min)_by\(.*group by .*, \d+\w+, \d+\w+\).* order by .*time desc",
    ),
    explain(
        "the server leaves rows out of a window whose distance from its first value is no number",
        r"^value",
        r"group by variation\((?!s\d+[,)])",
    ),
    explain("the server takes a constant in ORDER BY for raw data", "Raw data and aggregation hybrid", r"order by [^)]*\) \+ 1"),
    explain("the server lets STRING and numbers mix in CASE", r"^refused: 701: CASE expression: STRING"),
    explain(
        "the server evaluates no window if OFFSET leaves all of them out",
        r"^refused: 301: (Unsupported data type|For input string|(COUNT_IF|MODE|TIME_DURATION) with slidingWindow)"
        r".*IoTDB answers 0 rows",
        r"group by .* offset",
    ),
    explain(
        "the server evaluates the branches of CASE that it does not take",
        r"^answered.*IoTDB refuses 301: (For input string|Invalid text|(Text|Double|float|double|long) value)",
        r"case .*cast\(",
    ),
    explain(
        "the server takes `5 > series` for `series > 5`",
        r"^(rows|value)",
        r"where ((now\(|\d)[^<>]* [<>]=? time$|(.*(and|or|[(|&]) *)?-?\d+(\.\d+)? [<>]=? s\d+\b)",
    ),
    explain(
        "the server does not check the types of conditions beside one of a missing series",
        r"^refused: 701: Invalid input expression.*IoTDB answers 0 rows",
        "where",
    ),
    explain("the server aggregates some series of several types by tags", "needs series of one type", "tags"),
    explain(
        "the server does not check what no row reaches",
        r"^refused: 301: (Unsupported dataType|[A-Z_]+ with slidingWindow).*IoTDB answers 0 rows",
        "where",
    ),
    explain(
        "the server reports a missing series of HAVING with either status",
        r"^status: ours 701: .*UNKNOWN.*IoTDB's 301: Unknown expression type",
        "having",
    ),
    explain(
        "the server has no row for an expression of aggregates of time-series functions without points",
        r"^rows: ours 1, IoTDB's 0; row 0: ours \((None|0)(, (None|0))*,?\), IoTDB's None",
        rf"^select .*{SERIES}.* where (?!.* group by)",
    ),
    explain(
        "the server loses points of expressions of a series with NULL and a function that returns its points later than their time",
        r"^(value|rows)",
        r"[-+*/%<>=] \(?((top|bottom)_k|zero_(count|duration)|non_zero_(count|duration))\("
        r"|((top|bottom)_k|zero_(count|duration))\([^()]*\)\)? [-+*/%<>=!]",
    ),
    explain(
        "the server reads a text of max_by in windows that overlap in its platform's encoding",
        r"^value: .*IoTDB's '[^']*\\\\x",
        r"_by\(s[67].*group by .*, \d+\w+, \d+\w+\)",
    ),
    explain(
        "the server does not see a database for a moment after its creation",
        r"IoTDB refuses 701: No matched database\. Please check the path root\.cmp\d+_w\.",
    ),
    explain(
        "the server loses the type of an argument of max_by that a device lacks",
        r"^answered.*IoTDB refuses 701: ALIGN BY DEVICE: the data types",
        r"(max|min)_by\(.* align by device",
    ),
    explain(
        "the server keeps devices that lack an argument of max_by, and refuses clauses for them",
        r"^answered.*IoTDB refuses 701: .* in (order|group) by clause doesn't exist",
        r"(max|min)_by\(.* (order|group) by .* align by device",
    ),
    explain(
        "the server fails for aggregates of several types in HAVING",
        r"^(answered|status).*IoTDB('s| refuses) 301: queue has been destroyed",
        r"having .* align by device",
    ),
    explain("in the server, nothing equals one of a list of instants that begins with now()", r"^rows", r"time in \(now\(\)"),
    explain(
        "the server keeps NaN if it is the first value, and Headrace skips it",
        r"^value: .*IoTDB's nan\n",
        r"(extreme|max_value|min_value)\(.*(sqrt|ln|log10|asin|acos|%|/)",
    ),
    explain(
        "the server does not check the types of devices that LIMIT leaves out",
        r"^refused: 701: (ALIGN BY DEVICE: the data types|Aggregate functions \[)",
        r"group by .* limit .*align by device",
    ),
    explain(
        "the server orders BOOLEAN in queries with time-series functions",
        r"^refused: 301: Unsupported Type",
        r"s5 [<>].*'\w+'='|'\w+'='.*s5 [<>]",
    ),
    explain(
        "the server compares BOOLEAN in conjunctions of comparisons only",
        r"^answered.*IoTDB refuses 301: Unsupported Type",
        r"where.*s5 [<>].* (or|\|)|where.* (or|\||between) .*s5 [<>]",
    ),
    explain(
        "the server continues from one device to the next with functions of aggregates",
        r"^(rows|value)",
        rf"{SERIES}(count|avg|sum|m\w+_\w+|\w+_value)\(.* by device",
    ),
    explain(
        "the server calls time-series functions with the latest row first if ORDER BY has it first",
        r"^(rows|value)",
        rf"^select (?!last).*{SERIES}.*order by .*time desc",
    ),
    explain(
        "the server has one row for all devices if a query has time-series functions and expressions of aggregates",
        r"^rows: ours \d+, IoTDB's 1;",
        rf"^select (?!.*group by).*{SERIES}.*align by device$",
    ),
    explain(
        "the server subtracts values that leave a window, and keeps the rounding errors",
        r"^value",
        r"(stddev|var)[^;]* into [^;]*group by [^;]*, \d+\w+, \d+\w+\).*; select",
    ),
    explain(
        "in the server, HAVING is only about the missing series if one of the paths lacks it",
        r"^rows: ours 0,",
        r"from \S*(\*|, )\S* .*having .*count(_if)?\((?!.*by device)",
    ),
    explain("the server keeps the bytes of a BLOB in a TEXT", r"^value: .*\\\\x", r"cast\(s8 as (text|string)\)"),
    explain(
        "the server makes a DATE of a number that is no date",
        r"^refused: 301: Invalid date format: -?[\d.]+\n.*IoTDB answers",
        r"cast\(.* as date\)",
    ),
    explain(
        "in IoTDB's expressions, a stored -0.0 is less than 0; in its WHERE it is 0",
        r"^value.*\b-0\.0\b",
        r"s[34] (=|>=|<|!=|<>|in|between) ",
    ),
    explain(
        "the server subtracts values that leave a window, and keeps the rounding errors",
        r"^value: row \d+, \S*(stddev|var)",
        r"(stddev|var).*group by .*, \d+\w+, \d+\w+\)",
    ),
    explain(
        "the server repeats or confuses sums in HAVING and of two aggregates of one series",
        r"^value",
        r"(sum|avg)\(.*((sum|avg)\(.*level|level.*having)",
    ),
    explain("the server interpolates the digits of a DATE, to days that may not exist", r"s9", r"fill\(linear"),
    explain(
        "the server forgets the types STRING, BLOB, DATE and TIMESTAMP of latest values, also when it sorts them",
        r"^value: .*'root\.\S+\.s(7|8|9|10)'",
        r"^select last",
    ),
    explain("the server does not compare TIMESTAMP with decimals", r"\[TIMESTAMP, INT64\]", r"s10"),
    explain("the server orders series by tag by chance", r"^value", r"^show timeseries .* where tags.* limit"),
    explain("the server orders latest values of one instant by chance", r"^(value|rows)", r"^select last (?!.*timeseries).* limit"),
    explain(
        "the server writes the other values of the statement; Headrace writes none",
        r"IoTDB's (507|609)|IoTDB refuses 507",
        r"(^|; )insert[^;]*$",
    ),
    explain(
        "the server subtracts values that leave a window, and keeps the rounding errors",
        r"^value: row \d+, (a|b1|x y|value): ",
        r"(stddev|var)\w*\(.*\) as .*group by .*, \d+\w+, \d+\w+\)",
    ),
    explain("the server stores how a binary constant is written in a TEXT", r"^value:.*IoTDB's \"X'", r"(^|; )insert"),
    explain("the server stores bytes that are no text in a TEXT", r"value b'", r"(^|; )insert[^;]*$"),
    explain(
        "the server limits the rows of a device before it sorts them",
        r"^(rows|value)",
        r"(order by device( desc| asc)?, (?!time)|where .*\bs\d+\b.* order by (?!device|time)).* limit .*align by device",
    ),
    explain(
        "the server writes the earliest rows whatever ORDER BY says", r"^(rows|value)", r"select [^;]* into [^;]*order by time desc"
    ),
    explain(
        "the server does not list the targets of devices without rows",
        r"^rows: ours \d+, IoTDB's \d+; row \d+: ours \(.*, 0\), ",
        r"^select [^;]* into [^;]* align by device$",
    ),
    explain("the server's search for the nearest tuples leaves some of them out", r"^value", r"^select .*master_repair\("),
    explain(
        "the server lets the parent of a path with a device template use it",
        r"^refused: 507: Path \[\S+\] has not been set any template",
        r"set device template \S+ to (\S+)\.a; .*create timeseries (using|of) device template on \1$",
    ),
    explain(
        "the server lets the parent of a path with a device template use it",
        r"^value: row \d+, (IsAligned|Template): ",
        r"set device template \S+ to (\S+)\.a; .*insert into \1\(.*; show devices \S+$",
    ),
    explain(
        "without any row, the server lists the targets if its partitions of the queried time have rows",
        r"^rows: ours 0, .*, 0\)",
        r"^select [^;]* into [^;]*$",
    ),
    explain(
        "the server leaves rows of the first step out of the first of overlapping windows of months that start every some days",
        r"^value: row 0, ",
        r"group by \([^)\]]*[)\]], \d+(mo|y)\w*, \d+[dw]\)",
    ),
    explain(
        "the server ignores ORDER BY of other aggregates beside count_time",
        r"^value: row \d+, Time: ",
        r"^select count_time\(\*\)( as [^,]+)? from (?!.*align by device).* order by (?!count_time|time)",
    ),
    explain(
        "the server counts windows of devices that lack the series of the query in OFFSET and LIMIT",
        r"^(rows|value)",
        r"^select (?!.*(having|fill|order by time)).*\bs([2-9]|10)\b.* group by \(.* (limit|offset) \d+.* align by device$",
    ),
    explain(
        "the server evaluates rows and windows that LIMIT leaves out, unless the query reads one series or aligned device",
        r"^answered.*IoTDB refuses 301: (For input string|Invalid text|(Text|Double|float|double|long) value)",
        r"^select (?!.* group by).*cast\(.* limit \d+"
        r"|^select .*cast\(.* group by \(.* order by time.* (limit|offset) \d+.*align by device",
    ),
    explain(
        "the server counts windows from the wrong end, or those it does not return, with ORDER BY time DESC",
        r"^(rows|value)",
        r"group by \(.* order by time desc.* offset \d+"
        r"|group by \(.*, (10s, 5s|20s, 7s|20s, 5s|30s, 10s)\).* order by time desc.* limit \d+",
    ),
    explain(
        "the server calls time-series functions with the rows of the windows within LIMIT and OFFSET only",
        r"^(rows|value)",
        rf"^select .*{SERIES}.* group by \(.* (limit|offset) \d+",
    ),
    explain(
        "the server loses digits of the variance of large numbers",
        r"^value: ",
        r"(stddev|var)\w*\([^,]*[-+] 10000000000",
    ),
    explain(
        "the server has a window at instant 0 if the expression of GROUP BY VARIATION has no value",
        r"^rows: .*; row \d+: .*, IoTDB's \(0, ",
        r"group by variation\(",
    ),
    explain(
        "the server compares a DATE with numbers in BETWEEN outside of WHERE",
        r"^refused: 701: .*actual data type: (INT32|INT64|FLOAT|DOUBLE), expected data type\(s\): \[DATE\]",
        r"\bs9\)* (not )?between",
    ),
)

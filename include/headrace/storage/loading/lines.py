"""Lines of text files: where they end, quotes that do not close on theirs, and files that are no text in UTF-8."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

from headrace.errors import DataError

LineEnd = bytes
LF: Final = b"\n"
CR: Final = b"\r"
BOM: Final = b"\xef\xbb\xbf"
# The lines of a file end as the first of them does, within this many bytes.
HEAD_BYTES: Final = 2**20
BLOCK_BYTES: Final = 2**20
UTF16_HINT: Final = "convert it: iconv -f UTF-16 -t UTF-8 {}"
FOREIGN: Final = (
    (b"\x1f\x8b", "is compressed by gzip", "decompress it: gunzip {}"),
    (b"BZh", "is compressed by bzip2", "decompress it: bunzip2 {}"),
    (b"\xfd7zXZ", "is compressed by xz", "decompress it: unxz {}"),
    (b"\x28\xb5\x2f\xfd", "is compressed by zstd", "decompress it: unzstd {}"),
    (b"PK\x03\x04", "is a ZIP archive, as workbooks are, too", "unpack it, or export the workbook as CSV"),
    (b"PAR1", "is a Parquet file", "name it {}.parquet"),
    (b"\xff\xfe\x00\x00", "is text in UTF-32", "convert it: iconv -f UTF-32 -t UTF-8 {}"),
    (b"\x00\x00\xfe\xff", "is text in UTF-32", "convert it: iconv -f UTF-32 -t UTF-8 {}"),
    (b"\xff\xfe", "is text in UTF-16", UTF16_HINT),
    (b"\xfe\xff", "is text in UTF-16", UTF16_HINT),
)
"""What files begin with that are no text in UTF-8, what they are, and what to do."""


def line_end(path: Path) -> bytes:
    """Return what ends the lines of a text file: LF, which may follow a CR, or CR alone.

    Raises:
        DataError: The file is no text in UTF-8; says what it is.
    """
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    for signature, kind, hint in FOREIGN:
        if head.startswith(signature):
            raise DataError(f"{path.name} {kind}", hint=hint.format(path.name))
    start = head[:64]
    if len(start) > 3 and 3 * start.count(0) > len(start) and start.strip(b"\0"):
        raise DataError(f"{path.name} is text in UTF-16", hint=UTF16_HINT.format(path.name))
    return CR if CR in head and LF not in head else LF


def first_line(path: Path, end: bytes) -> tuple[str, int]:
    """Return the first line that is not blank, without its end, and the offset of the next one.

    Raises:
        DataError: It is no text in UTF-8, or has another line end within.
    """
    with path.open("rb") as file:
        while line := read_line(file, end):
            text = line.removeprefix(BOM).rstrip(b"\r\n")
            if text.strip():
                return _decoded(text, path), file.tell()
        return "", file.tell()


def first_lines(path: Path) -> list[str]:
    """Return the first two lines that are not blank: in the first may be names, so that only the second has quotes."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES).removeprefix(BOM)
    return [line.decode(errors="replace").strip() for line in islice(nonblank_lines(head), 2)]


def _decoded(line: bytes, path: Path) -> str:
    if CR in line:
        raise DataError(f"the lines of {path.name} end in CR and in LF", hint="let all lines end in the same way")
    try:
        return line.decode()
    except UnicodeDecodeError:
        hint = f"convert it to UTF-8, as with iconv -f WINDOWS-1252 -t UTF-8 {path.name}"
        raise DataError(f"the first line of {path.name} is no text in UTF-8", hint=hint) from None


def read_line(file: BinaryIO, end: bytes) -> bytes:
    """Read the rest of a line with its end."""
    if end == LF:
        return file.readline()
    start, parts = file.tell(), []
    while block := file.read(BLOCK_BYTES):
        head, found, _ = block.partition(end)
        parts.append(head + found)
        if found:
            break
    line = b"".join(parts)
    file.seek(start + len(line))
    return line


def nonblank_lines(text: bytes) -> Iterator[bytes]:
    """Yield the lines that are not blank, without their ends."""
    return (line for line in text.splitlines() if line.strip())


def has_open_quote(line: str, options: dict[str, Any]) -> bool:
    """Return whether a quote of a line of CSV opens a value and does not close, by the options of Python's reader."""
    try:
        list(csv.reader([line], strict=True, **options))
    except csv.Error as error:
        return "unexpected end of data" in str(error)
    return False

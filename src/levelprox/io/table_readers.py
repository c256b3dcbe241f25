"""Readers of tables: CSV and TSV, with a header line of names, and Parquet; both by polars.

A CSV column in which every entry is a number, with or without blanks around it, holds numbers. Entries that are empty,
NA, N/A, NaN or null are missing. Empty lines are left out; a line of separators alone, as ",,", is a row of missing
values.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from levelprox.exceptions import FileFormatError, Hint, Parameter
from levelprox.io.opened import all_bytes, blocks, shown
from levelprox.io.table import Table, is_numeral, polars_for

_SEPARATOR = Hint((" (", Parameter("separator"), ")"))
_MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL"]


def read_csv(
    path: str | os.PathLike[str], *, separator: str = ",", header: bool = True, text: Sequence[str] = ()
) -> Table:
    """Read a file of separated values, which may be compressed (.gz, .bz2, .xz).

    Parameters
    ----------
    path : path-like
    separator : str, default=","
        One character.
    header : bool, default=True
        Whether the first line holds names; else columns are called column_1, column_2 and so on.
    text : sequence of str
        Columns that hold text even where every entry is a number.

    Returns
    -------
    Table
        With all columns; those that hold numbers as numbers.

    Raises
    ------
    FileFormatError
        Where lines have more fields than the first, names are not unique, or the text is not UTF-8.
    BackendError
        Where the file changes while it is read.
    """
    polars_for("CSV", shown(path))  # before anything is read
    return parse_csv(b"".join(block.tobytes() for block in blocks(path)), shown(path), separator, header, text)


def parse_csv(text: bytes, name: str, separator: str = ",", header: bool = True, as_text: Sequence[str] = ()) -> Table:
    """The table of a text; `name` is what errors call it, the rest as in `read_csv`."""
    polars = polars_for("CSV", name)
    text, left_out = _without_empty_lines(text, header)
    options: dict[str, Any] = {"separator": separator, "has_header": header, "null_values": _MISSING}
    try:
        if header:
            first = text[: text.find(b"\n") + 1] or text
            titles = polars.read_csv(first, separator=separator, has_header=False, infer_schema=False)
            _check_header(titles, name)
            own = [str(title) for title in titles.row(0) if str(title or "").strip() in as_text]
        else:
            own = [f"column_{one.removeprefix('column_')}" for one in as_text]
            width = len(
                polars.read_csv(text, separator=separator, has_header=False, infer_schema=False, n_rows=1).columns
            )
            own = [one for one in own if one in {f"column_{i + 1}" for i in range(width)}]
        if own:
            options["schema_overrides"] = dict.fromkeys(own, polars.String)
        frame = _read(polars, text, options)
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException) as error:
        raise _explained(str(error), name) from error
    if frame.width == 1:
        raise FileFormatError(f"{name}: there is only one column; are fields separated otherwise?", _SEPARATOR)
    frame.columns = [column.strip() if header else f"column_{i}" for i, column in enumerate(frame.columns, 1)]
    if not frame.height:
        raise FileFormatError(f"{name}: there are no rows")
    return Table(_with_numbers(polars, frame, [one.strip() for one in own]), name, left_out)


def _without_empty_lines(text: bytes, header: bool) -> tuple[bytes, tuple[int, ...]]:
    """The text without lines that hold nothing, and which rows, from 0, they would have been; quoted ones stay."""
    if not re.search(rb"(?:^|\n)\r?\n", text):
        return text, ()
    parts = text.lstrip(b"\r\n").split(b'"')  # every other part is within quotes
    lines = b'""'.join(parts[::2]).split(b"\n")  # one for each row
    left_out = tuple(i - header for i, line in enumerate(lines[:-1]) if line in (b"", b"\r"))
    parts[::2] = [re.sub(rb"\n(?:\r?\n)+", b"\n", part) for part in parts[::2]]
    return b'"'.join(parts), left_out


def _explained(error: str, name: str) -> FileFormatError:
    """Return an error that explains polars' own."""
    if "more fields" in error:
        reason = "a row has more fields than the first line; are fields separated otherwise?"
        return FileFormatError(f"{name}: {reason}", _SEPARATOR)
    if "utf-8" in error.lower():
        return FileFormatError(f"{name}: the text is not UTF-8; convert it (iconv -f latin1 -t utf-8)")
    return FileFormatError(f"{name}: {error.splitlines()[0]}")


def _read(polars: Any, text: bytes, options: dict[str, Any]) -> Any:
    try:
        return polars.read_csv(text, infer_schema_length=None, **options)
    except polars.exceptions.ComputeError as error:
        if "could not parse" not in str(error):
            raise
        options = {key: value for key, value in options.items() if key != "schema_overrides"}
        return polars.read_csv(text, infer_schema=False, **options)  # numbers too long for integers


def _check_header(first: Any, name: str) -> None:
    cells = [str(cell or "").strip() for cell in first.row(0)]
    if all(is_numeral(cell) for cell in cells):
        hint = Hint((" (", Parameter("header", False), ")"))
        raise FileFormatError(f"{name}: the first line holds numbers, no names; is there no header?", hint)
    twice = [cell for cell, count in Counter(cells).items() if count > 1]
    if twice:
        raise FileFormatError(f"{name}: {'more than one column is' if twice[0] else 'columns are'} called {twice[0]!r}")


def _with_numbers(polars: Any, frame: Any, as_text: Sequence[str]) -> Any:
    """Columns of text that are numerals with blanks around them, as numbers; but for those that are text."""
    text = [column.name for column in frame if column.dtype == polars.String and column.name not in as_text]
    changed = {}
    for one in text:
        column = frame[one].str.strip_chars()
        numbers = column.cast(polars.Float64, strict=False)
        if numbers.null_count() == column.null_count() and column.len() > column.null_count():
            changed[one] = numbers
    return frame.with_columns(**changed)


def read_parquet(path: str | os.PathLike[str]) -> Table:
    """Read a Parquet file.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    Table

    Raises
    ------
    FileFormatError
        Where it is no such file, or is damaged.
    BackendError
        Where it changes while it is read.
    """
    name = shown(path)
    polars = polars_for("Parquet", name)
    with open(path, "rb") as file:
        if file.read(4) != b"PAR1":
            raise FileFormatError(f"{name}: this is no Parquet file: it does not begin with PAR1")
    data = all_bytes(path)  # polars would map the file, and a map of a file that is cut short ends the process
    try:
        frame = polars.read_parquet(data)
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException) as error:
        raise FileFormatError(f"{name}: {str(error).splitlines()[0]}") from error
    if not frame.height:
        raise FileFormatError(f"{name}: there are no rows")
    return Table(frame, name)

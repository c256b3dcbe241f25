"""Tables with named columns, read by polars from CSV, TSV and Parquet files; errors name the row and the column.

Rows are counted from 1, without the header. A CSV column in which every entry is a number, with or without blanks
around it, holds numbers. Entries that are empty, NA, N/A, NaN or null are missing. Empty lines are left out; a line of
separators alone, as ",,", is a row of missing values.
"""

from __future__ import annotations

import difflib
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from levelprox.exceptions import FileFormatError, Hint, InvalidInputError, Parameter, warn
from levelprox.io.opened import all_bytes, blocks, shown
from levelprox.io.preprocessing import texts

if TYPE_CHECKING:
    import polars

#: Default names of the target.
TARGETS = ("target", "y")
_TEXT = ("String", "Categorical", "Enum")
_NAMED = 5  # columns that an error names; the others are counted
_SEPARATOR = Hint((" (", Parameter("separator"), ")"))
_MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL"]


@dataclass(frozen=True, eq=False)
class Table:
    """A table with named columns.

    Attributes
    ----------
    frame : polars.DataFrame
    name : str
        Name of the file for error messages.
    left_out : tuple of int
        Rows of the file, from 0 and ascending, that are not in the frame.
    is_whole : bool
        Whether this is the whole file: categories and missing values of a part cannot be prepared.
    """

    frame: polars.DataFrame
    name: str
    left_out: tuple[int, ...] = ()
    is_whole: bool = True

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.frame.columns)

    def target_name(self, target: str | None) -> str:
        """Return the target column: the given one, or the one with a usual name."""
        if target is not None:
            return self.checked(target, "target")
        found = [name for name in TARGETS if name in self.names]
        if len(found) == 1:
            return found[0]
        why = f"both {TARGETS[0]!r} and {TARGETS[1]!r} are there" if found else f"there are {listed(self.names)}"
        hint = Hint((" (", Parameter("target", "NAME"), f"; {why})"))
        raise InvalidInputError(f"{self.name}: which column is the target?", hint)

    def checked(self, column: str, role: str) -> str:
        """Return the name of a column, or of the nth column of a file without a header; others are errors."""
        if column in self.names:
            return column
        if f"column_{column}" in self.names:
            return f"column_{column}"
        near = difflib.get_close_matches(column, self.names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {listed(self.names)}"
        raise InvalidInputError(f"{self.name}: no column {column!r} for the {role}; {hint}")

    def listed_in(self, given: str) -> list[str]:
        """Return the names in a list with commas; a single name if a column has it."""
        return [given] if given in self.names else given.split(",")

    def features(self, names: Sequence[str], *, droppable: bool = False) -> polars.DataFrame:
        """Return columns as numbers; text and missing entries are errors, with a hint if the column may be dropped."""
        import polars

        self._refuse_text([name for name in names if not self._is_number(name)], droppable)
        frame = self.frame.select(polars.col(list(names)).cast(polars.Float64))
        for name in names:
            self._check_finite(name, frame[name], droppable)
            if self._is_too_long(name):
                warn(f"{self.name}: column {name!r} holds whole numbers beyond 2^53, which are rounded", UserWarning)
        return frame

    def is_text(self, name: str) -> bool:
        """Return whether a column holds text, not only missing values."""
        column = self.frame[name]
        return str(column.dtype).startswith(_TEXT) and column.null_count() < column.len()

    def check_numbers(self, names: Sequence[str], may_be_missing: bool, droppable: bool) -> None:
        """Raise if columns hold anything but finite numbers, or missing ones if they may be missing."""
        import polars

        if may_be_missing:  # a column without any value has no type
            names = [name for name in names if self.frame[name].null_count() < self.frame.height]
        self._refuse_text([name for name in names if not self._is_number(name)], droppable)
        for name in names:
            column = self.frame[name].cast(polars.Float64)
            self._check_finite(name, column.fill_nan(None).drop_nulls() if may_be_missing else column, droppable)

    def check_text(self, names: Sequence[str], may_be_missing: bool, droppable: bool) -> None:
        """Raise if categories are missing, unless they may be."""
        for name in [] if may_be_missing else names:
            missing = np.array([text is None for text in texts(self.frame[name])])
            if missing.any():
                self._refuse_missing(name, int(missing.argmax()), int(missing.sum()), droppable)

    def labels(self, name: str) -> NDArray[Any]:
        """Return a target: numbers, booleans or strings."""
        column = self.frame[name]
        if column.null_count():
            self._refuse_missing(name, int(column.is_null().arg_max() or 0), column.null_count(), False)
        if self._is_number(name) and str(column.dtype) != "Boolean":
            if self._is_too_long(name):
                raise FileFormatError(
                    f"{self.name}: column {name!r} holds whole numbers beyond 2^53, some of them equal in float64: "
                    "write them as words, or divide them"
                )
            return self.numbers(name)
        values = column.to_numpy()
        return values if values.dtype.kind == "b" else self._words(name)

    def _words(self, name: str) -> NDArray[Any]:
        """Return a column of strings without surrounding blanks."""
        column = self.frame[name].cast(str).str.strip_chars()
        empty = column == ""
        if empty.any():
            self._refuse_missing(name, int(empty.arg_max() or 0), int(empty.sum()), False)
        return np.asarray(column.to_list(), object)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return a column of numbers."""
        return np.array(self.features([name])[name].to_numpy(), np.float64)

    def _is_too_long(self, name: str) -> bool:
        """Return whether a column holds integers that floating point cannot represent."""
        column: Any = self.frame[name]
        return bool(column.dtype.is_integer() and max(abs(column.min() or 0), abs(column.max() or 0)) >= 2**53)

    def _is_number(self, name: str) -> bool:
        kind = self.frame.schema[name]
        return kind.is_numeric() or str(kind) == "Boolean"

    def _refuse_text(self, names: list[str], droppable: bool) -> None:
        if not names:
            return
        one = names[0] if len(names) == 1 else None
        what = f"{listed(names)} hold no numbers"
        if one is not None:
            kind = str(self.frame[one].dtype)
            text = self._text_in(one, droppable) if kind.startswith(_TEXT) else f"{kind}, no numbers"
            what = f"column {one!r} holds {text}"
        parts: list[str | Parameter] = []
        if droppable:
            parts = ["; drop it (" if one else "; drop them (", Parameter("drop", names[:_NAMED]), ")"]
        if droppable and self.is_whole:
            categories = Parameter("categorical", "auto" if one is None else [one])
            parts += [f", or make {'it' if one else 'them'} categories (", categories, ")"]
        raise FileFormatError(f"{self.name}: {what}", Hint(tuple(parts)))

    def _text_in(self, name: str, droppable: bool) -> str:
        """Return the first entry that is not a number, and a remedy if it resembles one."""
        column = self.frame[name]
        if column.null_count() == column.len():
            self._refuse_missing(name, 0, column.null_count(), droppable)
        there = [(i, str(value)) for i, value in enumerate(column) if value is not None]
        row, value = next(((i, value) for i, value in there if not is_numeral(value)), there[0])
        where = f"{value[:40]!r} in row {self._row(row)}"
        if is_numeral(value):
            return f"numbers as text, {where}: store them as numbers"
        plain = value.replace("_", "").replace(",", "").replace("'", "")
        return f"text, {where}" + (f": write it as {plain}" if is_numeral(plain) else "")

    def _check_finite(self, name: str, column: polars.Series, droppable: bool) -> None:
        if column.null_count():
            self._refuse_missing(name, int(column.is_null().arg_max() or 0), column.null_count(), droppable)
        bad = ~column.is_finite()
        if bad.any():
            row = int(bad.arg_max() or 0)
            raise FileFormatError(
                f"{self.name}: row {self._row(row)}, column {name!r} is {column[row]} ({int(bad.sum())} in this "
                "column): every value must be finite"
            )

    def _row(self, row: int) -> int:
        """Return the row of the file, from 1, of a row of the frame."""
        for one in self.left_out:
            row += one <= row
        return row + 1

    def _refuse_missing(self, name: str, row: int, count: int, droppable: bool) -> NoReturn:
        parts: tuple[str | Parameter, ...] = (", or drop the column (", Parameter("drop", [name]), ")")
        if self.is_whole:
            parts = (", impute (", Parameter("impute", "median"), ")", *parts)
        raise FileFormatError(
            f"{self.name}: row {self._row(row)}, column {name!r} is missing ({count} in this column): fill in or "
            "remove such rows",
            Hint(parts if droppable else ()),
        )


def listed(names: Iterable[str]) -> str:
    """Return columns as text: the first few, and how many more."""
    every = list(names)
    text = ", ".join(repr(name) for name in every[:_NAMED])
    more = f" and {len(every) - _NAMED} more" if len(every) > _NAMED else ""
    return f"column{'s' if len(every) != 1 else ''} {text}{more}"


def is_numeral(value: str) -> bool:
    """Return whether a text is a number, without the underscores and digits of other scripts that Python allows."""
    if not value.isascii() or "_" in value:
        return False
    try:
        float(value)
    except ValueError:
        return False
    return True


def polars_for(kind: str, name: str) -> Any:
    """Return polars; the error names what to install."""
    try:
        import polars
    except ImportError:
        raise ImportError(f"{name}: reading {kind} needs polars: pip install 'levelprox[io]'") from None
    return polars


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
        Whether the first line holds names; else columns are named column_1, column_2 and so on.
    text : sequence of str
        Columns that hold text even if every entry is a number.

    Returns
    -------
    Table
        With all columns; those that hold numbers as numbers.

    Raises
    ------
    FileFormatError
        If lines have more fields than the first, names are not unique, or the text is not UTF-8.
    BackendError
        If the file changes while it is read.
    """
    polars_for("CSV", shown(path))  # before anything is read
    return parse_csv(b"".join(block.tobytes() for block in blocks(path)), shown(path), separator, header, text)


def parse_csv(text: bytes, name: str, separator: str = ",", header: bool = True, as_text: Sequence[str] = ()) -> Table:
    """Return the table of a text; `name` is for error messages, the rest as in `read_csv`."""
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
    """Remove empty lines outside quotes; return the text, and the rows, from 0, that they would have been."""
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
    """Convert columns of numerals with surrounding blanks to numbers, except those named as text."""
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
        If it is no Parquet file, or is damaged.
    BackendError
        If it changes while it is read.
    """
    name = shown(path)
    polars = polars_for("Parquet", name)
    with open(path, "rb") as file:
        if file.read(4) != b"PAR1":
            raise FileFormatError(f"{name}: this is not a Parquet file: it does not begin with PAR1")
    data = all_bytes(path)  # polars would map the file; a process that maps a truncated file is killed
    try:
        frame = polars.read_parquet(data)
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException) as error:
        raise FileFormatError(f"{name}: {str(error).splitlines()[0]}") from error
    if not frame.height:
        raise FileFormatError(f"{name}: there are no rows")
    return Table(frame, name)

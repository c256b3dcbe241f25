"""A table with named columns: which one is the target, which are features, and what cannot be used, by row and column.

Tables are polars' data frames. Rows are counted from 1, the header not being one.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from levelprox.exceptions import FileFormatError, Hint, InvalidInputError, Parameter, warn
from levelprox.io.preprocessing import texts

if TYPE_CHECKING:
    import polars

#: Names under which a target is looked for where none is given.
TARGETS = ("target", "y")
_TEXT = ("String", "Categorical", "Enum")
_NAMED = 5  # columns that an error names; the others are counted


@dataclass(frozen=True, eq=False)
class Table:
    """What a file with columns holds.

    Attributes
    ----------
    frame : polars.DataFrame
    name : str
        What the file is called in errors.
    left_out : tuple of int
        Rows of the file, from 0 and ascending, that are not in the frame.
    is_whole : bool
        Whether this is all of the file: of a part, categories and missing values cannot be prepared.
    """

    frame: polars.DataFrame
    name: str
    left_out: tuple[int, ...] = ()
    is_whole: bool = True

    @property
    def names(self) -> list[str]:
        """The columns."""
        return list(self.frame.columns)

    def target_name(self, target: str | None) -> str:
        """The column to learn, or the one that is called as targets are."""
        if target is not None:
            return self.checked(target, "target")
        found = [name for name in TARGETS if name in self.names]
        if len(found) == 1:
            return found[0]
        why = f"both {TARGETS[0]!r} and {TARGETS[1]!r} are there" if found else f"there are {listed(self.names)}"
        hint = Hint((" (", Parameter("target", "NAME"), f"; {why})"))
        raise InvalidInputError(f"{self.name}: which column is the target?", hint)

    def checked(self, column: str, role: str) -> str:
        """The name of a column, or of a header-less file's nth; an error where there is none."""
        if column in self.names:
            return column
        if f"column_{column}" in self.names:
            return f"column_{column}"
        near = difflib.get_close_matches(column, self.names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {listed(self.names)}"
        raise InvalidInputError(f"{self.name}: no column {column!r} for the {role}; {hint}")

    def listed_in(self, given: str) -> list[str]:
        """The names in a list with commas; one name where a column is called so."""
        return [given] if given in self.names else given.split(",")

    def features(self, names: Sequence[str], *, droppable: bool = False) -> polars.DataFrame:
        """Return columns as numbers; raise where entries are text or missing, with a hint where it may be dropped."""
        import polars

        self._refuse_text([name for name in names if not self._is_number(name)], droppable)
        frame = self.frame.select(polars.col(list(names)).cast(polars.Float64))
        for name in names:
            self._check_finite(name, frame[name], droppable)
            if self._is_too_long(name):
                warn(f"{self.name}: column {name!r} holds whole numbers beyond 2^53, which are rounded", UserWarning)
        return frame

    def is_text(self, name: str) -> bool:
        """Whether a column holds words, and not only missing values."""
        column = self.frame[name]
        return str(column.dtype).startswith(_TEXT) and column.null_count() < column.len()

    def check_numbers(self, names: Sequence[str], may_be_missing: bool, droppable: bool) -> None:
        """Raise where columns hold something else than numbers that are finite, or perhaps missing."""
        import polars

        if may_be_missing:  # a column without any value has no type
            names = [name for name in names if self.frame[name].null_count() < self.frame.height]
        self._refuse_text([name for name in names if not self._is_number(name)], droppable)
        for name in names:
            column = self.frame[name].cast(polars.Float64)
            self._check_finite(name, column.fill_nan(None).drop_nulls() if may_be_missing else column, droppable)

    def check_text(self, names: Sequence[str], may_be_missing: bool, droppable: bool) -> None:
        """Raise where categories are missing, unless they may be."""
        for name in [] if may_be_missing else names:
            missing = np.array([text is None for text in texts(self.frame[name])])
            if missing.any():
                self._refuse_missing(name, int(missing.argmax()), int(missing.sum()), droppable)

    def labels(self, name: str) -> NDArray[Any]:
        """A target: numbers, truth values, or words."""
        column = self.frame[name]
        if column.null_count():
            self._refuse_missing(name, int(column.is_null().arg_max() or 0), column.null_count(), False)
        if self._is_number(name) and str(column.dtype) != "Boolean":
            if self._is_too_long(name):
                raise FileFormatError(
                    f"{self.name}: column {name!r} holds whole numbers beyond 2^53, some of which become the same: "
                    "write them as words, or divide them"
                )
            return self.numbers(name)
        values = column.to_numpy()
        return values if values.dtype.kind == "b" else self._words(name)

    def _words(self, name: str) -> NDArray[Any]:
        """A column of words, without blanks around them, as numbers are read."""
        column = self.frame[name].cast(str).str.strip_chars()
        empty = column == ""
        if empty.any():
            self._refuse_missing(name, int(empty.arg_max() or 0), int(empty.sum()), False)
        return np.asarray(column.to_list(), object)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """One column of numbers."""
        return np.array(self.features([name])[name].to_numpy(), np.float64)

    def _is_too_long(self, name: str) -> bool:
        """Whether a column holds integers that floating point does not tell apart."""
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
        """The first entry that is no number, and what to do where it looks like one."""
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
        """Which row of the file, from 1, a row of the frame is."""
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
    """Columns in words: the first few, and how many more."""
    every = list(names)
    text = ", ".join(repr(name) for name in every[:_NAMED])
    more = f" and {len(every) - _NAMED} more" if len(every) > _NAMED else ""
    return f"column{'s' if len(every) != 1 else ''} {text}{more}"


def is_numeral(value: str) -> bool:
    """Whether a text is a number, without the underscores and digits of other scripts that Python allows."""
    if not value.isascii() or "_" in value:
        return False
    try:
        float(value)
    except ValueError:
        return False
    return True


def polars_for(kind: str, name: str) -> Any:
    """polars, or what to install in order to read such files."""
    try:
        import polars
    except ImportError:
        raise ImportError(f"{name}: reading {kind} needs polars: pip install 'levelprox[io]'") from None
    return polars

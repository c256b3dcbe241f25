"""A table with named columns: which one is the target, which are features, and what cannot be used, by row and column.

Tables are polars' data frames. Rows are counted from 1, the header not being one.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from levelprox.errors import FileFormatError, InvalidInputError

if TYPE_CHECKING:
    import polars

#: Names under which a target is looked for where none is given.
TARGETS = ("target", "y")
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
    """

    frame: polars.DataFrame
    name: str
    left_out: tuple[int, ...] = ()

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
        raise InvalidInputError(f"{self.name}: which column is the target? (--target NAME; {why})")

    def checked(self, column: str, role: str) -> str:
        """The name of a column, or of a header-less file's nth; an error where there is none."""
        if column in self.names:
            return column
        if f"column_{column}" in self.names:
            return f"column_{column}"
        near = difflib.get_close_matches(column, self.names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {listed(self.names)}"
        raise InvalidInputError(f"{self.name}: no column {column!r} for the {role}; {hint}")

    def features(self, names: Sequence[str]) -> polars.DataFrame:
        """The columns as numbers; an error where some are not, or are missing."""
        import polars

        self._refuse_text([name for name in names if not self._is_number(name)])
        frame = self.frame.select(polars.col(list(names)).cast(polars.Float64))
        for name in names:
            self._check_finite(name, frame[name])
        return frame

    def labels(self, name: str) -> NDArray[Any]:
        """A target: numbers, truth values, or words."""
        column = self.frame[name]
        if column.null_count():
            self._refuse_missing(name, int(column.is_null().arg_max() or 0), column.null_count())
        if self._is_number(name) and str(column.dtype) != "Boolean":
            return self.numbers(name)
        values = column.to_numpy()
        return values if values.dtype.kind == "b" else np.asarray(column.cast(str).to_list(), object)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """One column of numbers."""
        return np.array(self.features([name])[name].to_numpy(), np.float64)

    def _is_number(self, name: str) -> bool:
        kind = self.frame.schema[name]
        return kind.is_numeric() or str(kind) == "Boolean"

    def _refuse_text(self, names: list[str]) -> None:
        if not names:
            return
        drops = " ".join(f"--drop {shlex.quote(name)}" for name in names[:_NAMED])
        if len(names) > 1:
            raise FileFormatError(f"{self.name}: {listed(names)} hold no numbers; drop them ({drops})")
        column = self.frame[names[0]]
        if str(column.dtype) not in ("String", "Categorical", "Enum"):
            raise FileFormatError(
                f"{self.name}: column {names[0]!r} holds {column.dtype}, no numbers; drop it ({drops})"
            )
        row = next((i for i, value in enumerate(column) if value is not None and not is_numeral(value)), None)
        if row is None:
            self._refuse_missing(names[0], 0, column.null_count())
        where = f"{column[row][:40]!r} in row {self._row(row)}"
        raise FileFormatError(f"{self.name}: column {names[0]!r} holds text, {where}; drop it ({drops})")

    def _check_finite(self, name: str, column: polars.Series) -> None:
        if column.null_count():
            self._refuse_missing(name, int(column.is_null().arg_max() or 0), column.null_count())
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

    def _refuse_missing(self, name: str, row: int, count: int) -> NoReturn:
        raise FileFormatError(
            f"{self.name}: row {self._row(row)}, column {name!r} is missing ({count} in this column): fill in or "
            f"remove such rows, or drop the column (--drop {shlex.quote(name)})"
        )


def listed(names: Iterable[str]) -> str:
    """Columns in words: the first few, and how many more."""
    every = list(names)
    text = ", ".join(repr(name) for name in every[:_NAMED])
    more = f" and {len(every) - _NAMED} more" if len(every) > _NAMED else ""
    return f"column{'s' if len(every) != 1 else ''} {text}{more}"


def is_numeral(value: str) -> bool:
    """Whether a text is a number."""
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

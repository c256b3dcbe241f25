"""CSV, and what a spreadsheet would take for a formula when it opens such a file.

Excel, LibreOffice Calc and Google Sheets compute a cell that begins with =, +, - or @, behind blanks perhaps; names of
columns and classes come from whoever made the data. A numeral, as -0.5 or +1, is a number to them, not a formula.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from typing import Any

_SIGNS = "=+-@"
_FIRST = (*_SIGNS, *(chr(ord(sign) + 0xFEE0) for sign in _SIGNS))  # and as wide as the characters of East Asia


def csv_lines(rows: Iterable[Sequence[Any]]) -> str:
    """Rows as lines of CSV; cells are quoted where that is needed."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def is_formula(word: str) -> bool:
    """Whether a spreadsheet may compute a cell of this text.

    >>> [is_formula(word) for word in ("=1+2", "@SUM(A1)", " -x", "-1", "+1.5e3", "a=b")]
    [True, True, True, False, False, False]
    """
    return word.lstrip().startswith(_FIRST) and not _is_numeral(word)


def safe(cell: Any) -> Any:
    """A cell that no spreadsheet computes: an apostrophe before a formula; all else, and every number, as it is.

    >>> safe("=1+2"), safe("-1"), safe(-1.5)
    ("'=1+2", '-1', -1.5)
    """
    return f"'{cell}" if isinstance(cell, str) and is_formula(cell) else cell


def _is_numeral(word: str) -> bool:
    try:
        return word.isascii() and "_" not in word and math.isfinite(float(word))
    except ValueError:
        return False

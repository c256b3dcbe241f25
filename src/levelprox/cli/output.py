"""Results for people, as tables, and for programs, as one JSON document; both on standard output."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, is_dataclass
from enum import Enum
from os import PathLike, fspath
from typing import Any

from levelprox.cli.streams import printable

_WIDE = 200  # columns, where it is not a terminal that says how many there are


def print_json(document: dict[str, Any]) -> None:
    """One document, of ASCII: whatever the encoding of standard output, it is read back as it was."""
    json.dump(plain(document), sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def plain(value: Any) -> Any:
    """What JSON can say; numbers that are not finite, which it cannot, are null."""
    if isinstance(value, Enum):
        return str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if hasattr(value, "tolist"):  # NumPy's
        return plain(value.tolist())
    if is_dataclass(value) and not isinstance(value, type):
        return {"kind": type(value).__name__, **plain(asdict(value))}
    return printable(fspath(value)) if isinstance(value, PathLike) else repr(value)


def print_table(heads: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> None:
    """A table; numbers to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    body = [[_cell(entry) for entry in row] for row in rows]
    table = Table(box=SIMPLE_HEAD, pad_edge=False, title=Text(title) if title else None, title_justify="left")
    for j, head in enumerate(heads):
        numbers = all(row[j] == "" or not isinstance(row[j], str) for row in body)
        table.add_column(Text(head), justify="right" if numbers else "left", overflow="fold", no_wrap=numbers)
    for row in body:
        table.add_row(*(Text(entry if isinstance(entry, str) else f"{entry:.6g}") for entry in row))
    _console().print(table)


def print_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Names and what is to be said of each, in two columns."""
    from rich.text import Text

    rows = [(printable(name), printable(value)) for name, value in facts]
    width = max((len(name) for name, _ in rows), default=0)
    console = _console()
    for name, value in rows:
        console.print(Text.assemble((name.ljust(width), "dim"), f"  {value}"), soft_wrap=True)


def print_line(text: str) -> None:
    """A line."""
    from rich.text import Text

    _console().print(Text(printable(text)), soft_wrap=True)


def _cell(entry: object) -> str | float | int:
    return entry if isinstance(entry, float | int) and not isinstance(entry, bool) else printable(entry)


def _console() -> Any:
    from rich.console import Console

    width = None if sys.stdout.isatty() else _WIDE
    return Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)

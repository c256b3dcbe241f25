"""Small tables: as aligned text, as HTML, as a DataFrame."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

_WIDTH = 118  # characters of a line of text


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    name : str
    cells : sequence of str
        One for each row.
    number : bool
        Whether the cells are numbers, which are aligned to the right.
    is_html : bool
        Whether the cells are HTML, and not text to be escaped.
    """

    name: str
    cells: Sequence[str]
    number: bool = True
    is_html: bool = False

    @property
    def html(self) -> list[str]:
        """The cells as HTML."""
        return list(self.cells) if self.is_html else [escape(cell) for cell in self.cells]


def as_text(columns: Sequence[Column], indent: str = "") -> str:
    """Return the table in lines of text, with the names of the columns above."""
    aligned = [_aligned(column) for column in columns]
    return "\n".join((indent + "  ".join(row)).rstrip() for row in zip(*aligned, strict=True))


def _aligned(column: Column) -> list[str]:
    cells = [column.name, *column.cells]
    width = max(map(len, cells))
    return [cell.rjust(width) if column.number else cell.ljust(width) for cell in cells]


def as_html(columns: Sequence[Column]) -> str:
    """Return the table as HTML; what is in it is escaped."""
    kinds = [' class="number"' if column.number else "" for column in columns]
    head = "".join(f"<th{kind}>{escape(column.name)}</th>" for kind, column in zip(kinds, columns, strict=True))
    rows = zip(*(column.html for column in columns), strict=True)
    body = "".join(
        f"<tr>{''.join(f'<td{kind}>{cell}</td>' for kind, cell in zip(kinds, row, strict=True))}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def titled_text(tables: Sequence[tuple[str, Sequence[Column]]]) -> list[str]:
    """Return tables as text, each with its title above."""
    return [f"{title}\n{as_text(columns)}" if title else as_text(columns) for title, columns in tables]


def titled_html(tables: Sequence[tuple[str, Sequence[Column]]]) -> str:
    """Return the same as HTML, for a card."""
    return "".join(
        f'<div class="features">{f"<div>{escape(title)}</div>" if title else ""}{as_html(columns)}</div>'
        for title, columns in tables
    )


def facts_as_text(facts: Sequence[tuple[str, str]]) -> str:
    """Return names and what they are, in two columns."""
    width = max((len(name) for name, _ in facts), default=0)
    return "\n".join(
        textwrap.fill(text, _WIDTH, initial_indent=f"{name:<{width}}  ", subsequent_indent=" " * (width + 2))
        for name, text in facts
    )


def facts_as_html(facts: Sequence[tuple[str, str]]) -> str:
    """Return the same as HTML."""
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in facts)
    return f"<table><tbody>{rows}</tbody></table>"


def notes_as_text(notes: Sequence[str]) -> str:
    """Return notes, one after another, in lines that are not too long."""
    return "\n".join(textwrap.fill(note, _WIDTH, initial_indent="- ", subsequent_indent="  ") for note in notes)


def notes_as_html(notes: Sequence[str]) -> str:
    """Return the same as HTML."""
    return "".join(f'<div class="more">{escape(note)}</div>' for note in notes)


def data_frame(columns: Mapping[str, Any]) -> Any:
    """Return columns as a DataFrame of pandas, which must be installed."""
    try:
        from pandas import DataFrame  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError("to_frame() needs pandas: pip install pandas") from error
    return DataFrame(dict(columns))


def cut(name: str, longest: int = 32) -> str:
    """A name, cut where it is very long, on one line."""
    name = " ".join(name.split()) if any(sign.isspace() and sign != " " for sign in name) else name
    return name if len(name) <= longest else f"{name[: longest - 1]}…"

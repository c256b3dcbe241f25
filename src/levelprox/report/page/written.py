"""The part of a page that is there without a script: the model itself, written out.

`elements.js` makes the same elements of the same data when another budget is looked at; tests compare the two.
"""

from __future__ import annotations

from html import escape
from typing import Any

_SHADES = 9
# Control characters but for those that are white space.
_NOT_IN_HTML = {code: "\ufffd" for code in (*range(32), *range(127, 160)) if code not in (9, 10)}


def storable(said: Any) -> Any:
    """The same with text that a file can hold: halves of characters, and characters that HTML has not, are replaced."""
    if isinstance(said, str):
        return said.encode("utf-16", "surrogatepass").decode("utf-16", "replace").translate(_NOT_IN_HTML)
    if isinstance(said, dict):
        return {name: storable(value) for name, value in said.items()}
    return [storable(value) for value in said] if isinstance(said, list) else said


def text(words: Any) -> str:
    """Words as HTML."""
    return escape(str(words))


def tiles(fit: dict[str, Any]) -> str:
    """The figures that are read first."""
    return "".join(
        f'<div class="tile"><dt>{text(name)}</dt><dd class="value">{text(value)}</dd>'
        f'<dd class="note">{text(note)}</dd></div>'
        for name, value, note in fit["tiles"]
    )


def head(content: dict[str, Any]) -> str:
    """The head of the table of features."""
    columns = "".join(f'<th scope="col" class="number">{text(name)}</th>' for name in content["columns"])
    return f'<tr><th scope="col">feature</th>{columns}</tr>'


def rows(content: dict[str, Any], fit: dict[str, Any]) -> str:
    """The rows of the table of features, and the intercept below."""
    colour = dict(zip(content["lines"]["features"], content["lines"]["colours"], strict=True))
    body = "".join(
        f'<tr data-feature="{i}"><th scope="row"><span class="{swatch(colour.get(i, -1))}"></span>'
        f'<span class="name" title="{text(content["features"][i])}">{text(content["features"][i])}</span></th>'
        f"{''.join(map(_cell, cells))}</tr>"
        for i, cells in fit["rows"]
    )
    if fit["intercept"]:
        cells = "".join(map(_cell, fit["intercept"]))
        body += f'<tr class="intercept"><th scope="row"><span class="swatch"></span>intercept</th>{cells}</tr>'
    return body


def swatch(colour: int) -> str:
    """Classes of the mark that goes with a line: its colour, and whether it is dashed."""
    return "swatch" if colour < 0 else f"swatch c{colour % 8}{' dashed' if colour >= 8 else ''}"


def _cell(cell: list[Any]) -> str:
    number, part = cell
    if part is None:
        return f'<td class="number">{text(number)}</td>'
    at = part if part < 0 else 0
    bar = f'<rect class="{"minus" if part < 0 else "plus"}" x="{at:g}" y="0" width="{abs(part):g}" height="10"></rect>'
    return (
        f'<td class="number with-bar"><div><svg class="bar" viewBox="-100 0 200 10" preserveAspectRatio="none" '
        f'aria-hidden="true">{bar}</svg><span>{text(number)}</span></div></td>'
    )


def facts(fit: dict[str, Any]) -> str:
    """The certificate."""
    return "".join(f"<div><dt>{text(name)}</dt><dd>{text(words)}</dd></div>" for name, words in fit["facts"])


def classes(outcome: dict[str, Any], i: int) -> str:
    """The table of classes of one fit: the shade of a cell is its share of the row."""
    if outcome["kind"] != "classes":
        return ""
    names = "".join(
        f'<th scope="col" class="number" title="{text(name)}">{text(name)}</th>' for name in outcome["names"]
    )
    body = "".join(
        f'<tr><th scope="row" title="{text(name)}">{text(name)}</th>{_counts(counts, at)}</tr>'
        for at, (name, counts) in enumerate(zip(outcome["rows"], outcome["counts"][i], strict=True))
    )
    return (
        f'<thead><tr><th scope="col" class="corner">actual ↓ predicted →</th>{names}</tr></thead><tbody>{body}</tbody>'
    )


def _counts(counts: list[int], at: int) -> str:
    total = sum(counts)
    shades = [-(-_SHADES * n // total) if total else 0 for n in counts]
    return "".join(
        f'<td class="number {"right" if i == at else "wrong"} shade-{shade}">{n}</td>'
        for i, (n, shade) in enumerate(zip(counts, shades, strict=True))
    )

"""The HTML page: what the paper shows, the results here, and a sentence on every difference.

It needs nothing from outside, figures are part of it, and everything that is written into it is escaped.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import platform
from collections.abc import Iterable, Sequence
from functools import lru_cache
from html import escape
from importlib import metadata
from pathlib import Path
from string import Template

import matplotlib
from matplotlib.figure import Figure

from experiments.datasets import NAMES, DataError, source
from experiments.reproduce.study import Claim, Report, Scope, Table
from experiments.reproduce.summary import by_reason, troubles, verdicts
from levelprox.io import atomic

_HERE = Path(__file__).parent
_PROGRAMS = ("levelprox", "numpy", "scipy", "scikit-learn", "cvxpy", "clarabel", "scs", "mosek", "skglm", "abess")
_VERDICTS = {True: ("holds", "good"), False: ("missed", "short"), None: ("open", "none")}


def write_page(path: Path, reports: Sequence[Report], scope: Scope) -> Path:
    """Write the page, which is there as a whole or not at all.

    Parameters
    ----------
    path : Path
    reports : sequence of Report
        In the order in which they are shown.
    scope : Scope

    Returns
    -------
    Path
        The same.
    """
    style = (_HERE / "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    page = Template((_HERE / "page.html").read_text(encoding="utf-8")).substitute(
        policy=f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
        style=style,
        scope="Small settings (--quick): a look at whether everything works." if scope.quick else "Full settings.",
        verdicts=_overview(reports),
        data=_data(scope),
        programs=_programs(),
        sections="".join(_section(report, path.parent) for report in reports),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(path, [page.encode("utf-8", "replace")])
    return path


def _overview(reports: Sequence[Report]) -> str:
    """All claims in one table, and what there is to say of experiments without any."""
    rows = []
    for report in reports:
        link = f'<a href="#{_id(report)}">{escape(report.study.name)}</a>'
        for claim in report.outcome.claims if report.outcome else []:
            rows.append((link, escape(claim.paper), escape(claim.ours), _verdict(claim)))
        if not (report.outcome and report.outcome.claims):
            rows.append((link, escape(report.study.title), _state(report), ""))
    return _table(("experiment", "the paper", "here", "verdict"), rows)


def _state(report: Report) -> str:
    counts = [f"{len(what)} {word}" for word, what in troubles(report)]
    return escape("; ".join(counts) or ("see there" if report.outcome else "nothing yet"))


def _data(scope: Scope) -> str:
    """Return the sources of the paper's data sets."""
    rows = []
    for name in scope.sets or NAMES:
        try:
            found = source(name, scope.places)
            rows.append((escape(found.label), escape(found.kind), escape(found.note)))
        except DataError as error:
            rows.append((escape(name), "missing", escape(str(error))))
    return _table(("data set", "what it is", "how it differs from the paper's"), rows)


def _programs() -> str:
    return escape(
        f"{', '.join(map(_version, _PROGRAMS))}; Python {platform.python_version()} on {platform.machine()}, "
        f"{os.cpu_count()} cores"
    )


def _version(program: str) -> str:
    try:
        return f"{program} {metadata.version(program)}"
    except metadata.PackageNotFoundError:
        return f"{program} not installed"


def _section(report: Report, folder: Path) -> str:
    title = f"{escape(report.study.title)} <code>{escape(report.study.name)}</code>"
    body = [f'<section id="{_id(report)}"><h2>{title}</h2>']
    if report.outcome is not None:
        outcome = report.outcome
        body.append(f'<dl class="facts">{_fact("the paper", outcome.paper)}{_fact("here", outcome.summary)}</dl>')
        body += [_claims(outcome.claims)] if outcome.claims else []
        body += [_figure(figure, shows) for _, figure, shows in outcome.figures]
        body += [_captioned(table) for table in outcome.tables]
        body += [f'<h3>Differences</h3><ul class="notes">{_items(outcome.notes)}</ul>'] if outcome.notes else []
    body.append(_trouble(report))
    body.append(_foot(report, folder))
    return "".join(body) + "</section>\n"


def _id(report: Report) -> str:
    return escape(report.study.name)


def _fact(term: str, text: str) -> str:
    return f"<div><dt>{escape(term)}</dt><dd>{escape(text)}</dd></div>" if text else ""


def _items(texts: Iterable[str]) -> str:
    return "".join(f"<li>{escape(text)}</li>" for text in texts)


def _claims(claims: Sequence[Claim]) -> str:
    rows = [(escape(one.paper), escape(one.ours), _verdict(one), escape(one.remark)) for one in claims]
    return f"<h3>{escape(verdicts(claims).lower())}</h3>" + _table(("the paper", "here", "verdict", "remark"), rows)


def _verdict(claim: Claim) -> str:
    word, kind = _VERDICTS[claim.holds]
    return f'<span class="verdict {kind}">{word}</span>'


def _captioned(table: Table) -> str:
    return f"<h3>{escape(table.caption)}</h3>" + _table(
        tuple(map(escape, table.header)), [tuple(map(escape, row)) for row in table.rows], "figures"
    )


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "words") -> str:
    """Of cells that are HTML already; it scrolls in itself."""
    head = "".join(f'<th scope="col">{cell}</th>' for cell in header)
    body = "".join(f"<tr>{''.join(map(_cell, header, row))}</tr>" for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="table"><table class="{kind}">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>\n"
    )


def _cell(label: str, cell: str) -> str:
    """On a phone the cells of a row stand below one another, with their labels."""
    return f'<td data-label="{label}">{cell}</td>'


def _figure(figure: Figure, shows: str) -> str:
    width = round(figure.get_size_inches()[0] * 96)
    return (
        f'<figure><div class="scroll" tabindex="0" role="region" aria-label="figure">'
        f'<img src="{_picture(figure)}" width="{width}" alt="{escape(shows)}"></div>'
        f"<figcaption>{escape(shows)}</figcaption></figure>\n"
    )


@lru_cache(maxsize=64)
def _picture(figure: Figure) -> str:
    """SVG, sharp at every size; once for a figure, since the page is written after every experiment."""
    drawn = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "levelprox"}):  # the same figure, the same bytes
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(drawn.getvalue()).decode()


def _trouble(report: Report) -> str:
    parts = []
    for word, what in troubles(report):
        reasons = [f"{names}: {reason}" for reason, names in by_reason(what).items()]
        parts.append(f'<h3>{escape(word)}: {len(what)}</h3><ul class="trouble">{_items(reasons)}</ul>')
    if report.left:
        parts.append(f'<p class="trouble">{report.left} tasks have not been run yet.</p>')
    return "".join(parts)


def _foot(report: Report, folder: Path) -> str:
    time = f"{_duration(report.seconds)} of work, over all tasks"
    if report.csv is None:
        return f'<p class="foot">{time}</p>'
    name = escape(report.csv.relative_to(folder).as_posix())
    return f'<p class="foot">{time} · rows: <a href="{name}">{name}</a></p>'


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"

"""The report page: a model at every budget, in one self-contained HTML file.

Its content fills a template, with a content security policy that allows nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Sequence
from html import escape
from importlib import metadata, resources
from string import Template
from typing import Any

from numpy.typing import ArrayLike

from levelprox.io import atomic
from levelprox.report._drawing import COLOURS
from levelprox.report.page._content import page_content
from levelprox.report.page._fits import PathFits, Samples, path_fits, samples_of, test_samples

__all__ = ["page", "write_page"]


def page(
    model: Any,
    X: object,
    y: ArrayLike,
    *,
    test: tuple[object, ArrayLike] | tuple[object, ArrayLike, ArrayLike | None] | None = None,
    n_features: Sequence[int] | ArrayLike | None = None,
    level: Sequence[float] | ArrayLike | None = None,
    fits: Sequence[Any] | None = None,
    sample_weight: ArrayLike | None = None,
    fit_params: dict[str, Any] | None = None,
    test_params: dict[str, Any] | None = None,
    title: str | None = None,
) -> str:
    """Return a report page about a fitted model, at its own budget and at others, as self-contained HTML.

    A slider selects the budget. For each budget the page has the selected features with their coefficients, errors on
    training, test and held-out samples, the shadow price, the certificate, and a confusion matrix or a residual plot.
    Figures show all budgets. Without JavaScript the page shows the model alone. The same model and data give the same
    bytes.

    Parameters
    ----------
    model : SparseClassifier, SparseRegressor, SparseClassifierCV or SparseRegressorCV
        Fitted; it is not changed. If it has chosen its budget, the scores of the choice are shown.
    X, y : array-like
        The training data.
    test : tuple (X_test, y_test) or (X_test, y_test, weight), optional
        Test data, for the errors of every fit; errors are weighted if there are weights.
    n_features : sequence of int, optional
        Further numbers of features to show. By default those of `model.path_budgets`.
    level : sequence of float, optional
        Further levels to show, for a model that was fitted under a level.
    fits : sequence of fitted estimators, optional
        Fits for the other budgets; then nothing is fitted.
    sample_weight : array-like of shape (n_samples,), optional
        As in the fit of the model.
    fit_params, test_params : dict, optional
        Further arguments of `fit` and of `predict` for test data: offset, exposure.
    title : str, optional
        By default the name of the class.

    Returns
    -------
    str
        HTML, to be encoded as UTF-8. Names of features and classes are escaped.

    See Also
    --------
    write_page : Write the page to a file.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import SparseRegressor
    >>> from levelprox.report import page
    >>> X = np.random.default_rng(0).standard_normal((50, 4))
    >>> model = SparseRegressor(n_features=2).fit(X, X[:, 0] - X[:, 3])
    >>> html = page(model, X, X[:, 0] - X[:, 3], title="A small model")
    >>> html.startswith("<!DOCTYPE html>"), "<h1>A small model</h1>" in html
    (True, True)
    """
    training, testing = samples_of(X, y, sample_weight, fit_params), test_samples(test, test_params)
    path = path_fits(model, training, n_features, level, fits)
    content = _storable(page_content(path, training, testing))
    heading = _storable(title or type(model).__name__)
    return _written(content, path, heading, _subtitle(path, training, testing))


def write_page(path: str | os.PathLike[str], model: Any, X: object, y: ArrayLike, **options: Any) -> None:
    """Write the report page of a model to a file, atomically.

    Parameters
    ----------
    path : path-like
        The file; an existing one is replaced.
    model, X, y, **options
        As in `page`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from levelprox import SparseRegressor
    >>> from levelprox.report import write_page
    >>> X = np.random.default_rng(0).standard_normal((50, 4))
    >>> model = SparseRegressor(n_features=2).fit(X, X[:, 0] - X[:, 3])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_page(Path(folder) / "page.html", model, X, X[:, 0] - X[:, 3])
    ...     (Path(folder) / "page.html").stat().st_size > 10_000
    True
    """
    atomic.write(path, [page(model, X, y, **options).encode("utf-8")])


def _subtitle(path: PathFits, training: Samples, testing: Samples | None) -> str:
    """Return a line on the loss, the constraint and the data."""
    model = path.model
    words = [f"{str(model.loss_.name).replace('_', ' ')} loss"]
    if path.by == "level":
        words.append(f"{type(model.constraint_).__name__} constraint")
    words.append(f"{training.rows_used.size:,} samples × {model.n_features_in_:,} features".replace(",", "\u202f"))
    if hasattr(model, "classes_"):
        words.append(f"{model.classes_.size} classes")
    if testing is not None:
        words.append(f"{testing.rows_used.size:,} test samples".replace(",", "\u202f"))
    return " · ".join(words)


def _written(content: dict[str, Any], path: PathFits, title: str, subtitle: str) -> str:
    style = _read("page.css").replace("/* palette */", _palette())
    script = '\n(() => {\n"use strict";\n' + "\n".join(map(_read, _SCRIPTS)) + "})();\n"
    fit = content["fits"][path.own]
    tested = "test data" if content["outcome"]["of"] == "test" else "training data"
    return Template(_read("page.html")).substitute(
        policy=f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; "
        "form-action 'none'",
        style=style,
        script=script,
        data=_json(content),
        title=_escaped(title),
        subtitle=_escaped(subtitle),
        notice=f'<p class="notice">{_escaped(content["notice"])}</p>' if content["notice"] else "",
        label=_escaped(fit["label"]),
        last=len(content["fits"]) - 1,
        own=path.own,
        tiles=_tiles(fit),
        width="several" if content["several"] else "one",
        head=_head(content),
        rows=_rows(content, fit),
        sign=_escaped(content["sign"]),
        left_out=_escaped(fit["left_out"]),
        status=_escaped(fit["status"][0]),
        kind=fit["status"][1],
        facts=_facts(fit),
        outcome="Confusion matrix" if content["outcome"]["kind"] == "classes" else "Residuals",
        tested=tested,
        classes=_classes(content["outcome"], path.own),
        versions=_escaped(", ".join(f"{name} {metadata.version(name)}" for name in _PACKAGES)),
    )


_SCRIPTS = ("elements.js", "charts.js", "page.js")  # in this order, in one scope
_PACKAGES = ("levelprox", "numpy", "scipy", "scikit-learn")


def _read(name: str) -> str:
    return resources.files("levelprox.report.page").joinpath(name).read_text(encoding="utf-8")


def _palette() -> str:
    return " ".join(f"--line-{i}: {colour};" for i, colour in enumerate(COLOURS))


def _hash(source: str) -> str:
    """Return the hash of a script or style for the content security policy."""
    digest = hashlib.sha256(source.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _json(content: dict[str, Any]) -> str:
    """Return JSON that cannot end the element that contains it."""
    plain = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


_SHADES = 9
# Control characters except white space.
_NOT_IN_HTML = {code: "\ufffd" for code in (*range(32), *range(127, 160)) if code not in (9, 10)}


def _storable(content: Any) -> Any:
    """Return the data with lone surrogates and characters that HTML does not allow replaced."""
    if isinstance(content, str):
        return content.encode("utf-16", "surrogatepass").decode("utf-16", "replace").translate(_NOT_IN_HTML)
    if isinstance(content, dict):
        return {name: _storable(value) for name, value in content.items()}
    return [_storable(value) for value in content] if isinstance(content, list) else content


def _escaped(words: Any) -> str:
    """Escape text for HTML."""
    return escape(str(words))


def _tiles(fit: dict[str, Any]) -> str:
    """Return the tiles of the main numbers."""
    return "".join(
        f'<div class="tile"><dt>{_escaped(name)}</dt><dd class="value">{_escaped(value)}</dd>'
        f'<dd class="note">{_escaped(note)}</dd></div>'
        for name, value, note in fit["tiles"]
    )


def _head(content: dict[str, Any]) -> str:
    """Return the head of the table of features."""
    columns = "".join(f'<th scope="col" class="number">{_escaped(name)}</th>' for name in content["columns"])
    return f'<tr><th scope="col">feature</th>{columns}</tr>'


def _rows(content: dict[str, Any], fit: dict[str, Any]) -> str:
    """Return the rows of the table of features, with the intercept below."""
    colour = dict(zip(content["lines"]["features"], content["lines"]["colours"], strict=True))
    body = "".join(
        f'<tr data-feature="{i}"><th scope="row"><span class="{_swatch(colour.get(i, -1))}"></span>'
        f'<span class="name" title="{_escaped(content["features"][i])}">{_escaped(content["features"][i])}</span></th>'
        f"{''.join(map(_cell, cells))}</tr>"
        for i, cells in fit["rows"]
    )
    if fit["intercept"]:
        cells = "".join(map(_cell, fit["intercept"]))
        body += f'<tr class="intercept"><th scope="row"><span class="swatch"></span>intercept</th>{cells}</tr>'
    return body


def _swatch(colour: int) -> str:
    """Return the CSS classes of the marker of a line: its colour, and whether it is dashed."""
    return "swatch" if colour < 0 else f"swatch c{colour % 8}{' dashed' if colour >= 8 else ''}"


def _cell(cell: list[Any]) -> str:
    number, part = cell
    if part is None:
        return f'<td class="number">{_escaped(number)}</td>'
    at = part if part < 0 else 0
    bar = f'<rect class="{"minus" if part < 0 else "plus"}" x="{at:g}" y="0" width="{abs(part):g}" height="10"></rect>'
    return (
        f'<td class="number with-bar"><div><svg class="bar" viewBox="-100 0 200 10" preserveAspectRatio="none" '
        f'aria-hidden="true">{bar}</svg><span>{_escaped(number)}</span></div></td>'
    )


def _facts(fit: dict[str, Any]) -> str:
    """Return the facts of the certificate."""
    return "".join(f"<div><dt>{_escaped(name)}</dt><dd>{_escaped(words)}</dd></div>" for name, words in fit["facts"])


def _classes(outcome: dict[str, Any], i: int) -> str:
    """Return the confusion matrix of one fit; the shade of a cell is its fraction of the row."""
    if outcome["kind"] != "classes":
        return ""
    names = "".join(
        f'<th scope="col" class="number" title="{_escaped(name)}">{_escaped(name)}</th>' for name in outcome["names"]
    )
    body = "".join(
        f'<tr><th scope="row" title="{_escaped(name)}">{_escaped(name)}</th>{_counts(counts, at)}</tr>'
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

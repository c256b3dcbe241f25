"""The report page: a model at every budget, in one self-contained HTML file.

Its content fills a template, with a content security policy that allows nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from html import escape
from importlib import metadata
from string import Template
from typing import Any

from numpy.typing import ArrayLike

from levelprox.io import atomic
from levelprox.report._drawing import COLOURS
from levelprox.report.page._content import page_content
from levelprox.report.page._fits import PathFits, Samples, path_fits, samples_of, test_samples
from levelprox.report.tables import resource

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
    content = _each_text(page_content(path, training, testing), _storable)
    heading = {"title": _storable(title or type(model).__name__), "subtitle": _subtitle(path, training, testing)}
    return _written(content, heading)


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


def _written(content: dict[str, Any], heading: dict[str, str]) -> str:
    """Return the page: the template with the content as data for the script, and as HTML for readers without it."""
    palette = " ".join(f"--line-{i}: {colour};" for i, colour in enumerate(COLOURS))
    style = resource("page", "page.css").replace("/* palette */", palette)
    script = '\n(() => {\n"use strict";\n' + "\n".join(resource("page", name) for name in _SCRIPTS) + "})();\n"
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}"
    shown, own = _each_text(content, escape), content["own"]
    fit, outcome = shown["fits"][own], shown["outcome"]
    return Template(resource("page", "page.html")).substitute(
        _each_text(heading, escape),
        policy=f"{policy}; base-uri 'none'; form-action 'none'",
        style=style,
        script=script,
        data=_json(content),
        notice=f'<p class="notice">{shown["notice"]}</p>' if shown["notice"] else "",
        label=fit["label"],
        last=len(shown["fits"]) - 1,
        own=own,
        tiles=_tiles(fit),
        width="several" if shown["several"] else "one",
        head=_head(shown),
        rows=_rows(shown, fit),
        sign=shown["sign"],
        left_out=fit["left_out"],
        status=fit["status"][0],
        kind=fit["status"][1],
        facts="".join(f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in fit["facts"]),
        outcome="Confusion matrix" if outcome["kind"] == "classes" else "Residuals",
        tested="test data" if outcome["of"] == "test" else "training data",
        classes=_classes(outcome, own),
        versions=escape(", ".join(f"{name} {metadata.version(name)}" for name in _PACKAGES)),
    )


_SCRIPTS = ("elements.js", "charts.js", "page.js")  # in this order, in one scope
_PACKAGES = ("levelprox", "numpy", "scipy", "scikit-learn")


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


def _storable(text: str) -> str:
    """Return the text with lone surrogates and characters that HTML does not allow replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").translate(_NOT_IN_HTML)


def _each_text(content: Any, change: Callable[[str], str]) -> Any:
    """Return the content with each of its texts changed."""
    if isinstance(content, str):
        return change(content)
    if isinstance(content, dict):
        return {name: _each_text(value, change) for name, value in content.items()}
    return [_each_text(value, change) for value in content] if isinstance(content, list) else content


# --- the parts of the page as HTML, from content whose texts are escaped


def _tiles(fit: dict[str, Any]) -> str:
    """Return the tiles of the main numbers."""
    return "".join(
        f'<div class="tile"><dt>{name}</dt><dd class="value">{value}</dd><dd class="note">{note}</dd></div>'
        for name, value, note in fit["tiles"]
    )


def _head(content: dict[str, Any]) -> str:
    """Return the head of the table of features."""
    columns = "".join(f'<th scope="col" class="number">{name}</th>' for name in content["columns"])
    return f'<tr><th scope="col">feature</th>{columns}</tr>'


def _rows(content: dict[str, Any], fit: dict[str, Any]) -> str:
    """Return the rows of the table of features, with the intercept below."""
    colours = dict(zip(content["lines"]["features"], content["lines"]["colours"], strict=True))
    body = ""
    for i, cells in fit["rows"]:
        name, colour = content["features"][i], colours.get(i, -1)
        swatch = "swatch" if colour < 0 else f"swatch c{colour % 8}{' dashed' if colour >= 8 else ''}"
        named = f'<span class="{swatch}"></span><span class="name" title="{name}">{name}</span>'
        body += f'<tr data-feature="{i}"><th scope="row">{named}</th>{"".join(map(_cell, cells))}</tr>'
    if fit["intercept"]:
        cells = "".join(map(_cell, fit["intercept"]))
        body += f'<tr class="intercept"><th scope="row"><span class="swatch"></span>intercept</th>{cells}</tr>'
    return body


def _cell(cell: list[Any]) -> str:
    number, part = cell
    if part is None:
        return f'<td class="number">{number}</td>'
    at, side = min(part, 0), "minus" if part < 0 else "plus"
    bar = f'<rect class="{side}" x="{at:g}" y="0" width="{abs(part):g}" height="10"></rect>'
    box = 'viewBox="-100 0 200 10" preserveAspectRatio="none" aria-hidden="true"'
    return f'<td class="number with-bar"><div><svg class="bar" {box}>{bar}</svg><span>{number}</span></div></td>'


def _classes(outcome: dict[str, Any], i: int) -> str:
    """Return the confusion matrix of one fit; the shade of a cell is its fraction of the row."""
    if outcome["kind"] != "classes":
        return ""
    names = "".join(f'<th scope="col" class="number" title="{name}">{name}</th>' for name in outcome["names"])
    body = "".join(
        f'<tr><th scope="row" title="{name}">{name}</th>{_counts(counts, at)}</tr>'
        for at, (name, counts) in enumerate(zip(outcome["rows"], outcome["counts"][i], strict=True))
    )
    corner = '<th scope="col" class="corner">actual ↓ predicted →</th>'
    return f"<thead><tr>{corner}{names}</tr></thead><tbody>{body}</tbody>"


def _counts(counts: list[int], at: int) -> str:
    total = sum(counts)
    shades = [-(-_SHADES * n // total) if total else 0 for n in counts]
    return "".join(
        f'<td class="number {"right" if i == at else "wrong"} shade-{shade}">{n}</td>'
        for i, (n, shade) in enumerate(zip(counts, shades, strict=True))
    )

"""The HTML document of a page: its content in a template, with a policy that allows nothing else."""

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
from levelprox.report.page._fits import Family, Samples, family_of, held_out, samples_of


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
    """A page about a fitted model, at its own budget and at others: one HTML document that needs nothing from outside.

    A slider goes over the budgets. For each there are the selected features with their coefficients, errors on
    training, test and held-out samples, the shadow price, the certificate, and a confusion matrix or a plot of
    residuals. Figures show all budgets. Without scripts the page shows the model alone. The same model and data give
    the same bytes.

    Parameters
    ----------
    model : SparseClassifier, SparseRegressor, SparseClassifierCV or SparseRegressorCV
        Fitted, and left as it is. Of one that chose its budget the scores are shown, too.
    X, y : the data that the model was fitted to
    test : tuple (X_test, y_test) or (X_test, y_test, weight), optional
        Other samples, by which every fit is judged as well; errors are by weight, where there are weights.
    n_features : sequence of int, optional
        Numbers of features to show beside the model's own. Without these, `level` and `fits`: the grid of an estimator
        that chooses, else 0, 1, … up to the model's own number of features, or twenty levels up to its own.
    level : sequence of float, optional
        The same for a model that was fitted under a level.
    fits : sequence of fitted estimators, optional
        The other fits, where they are there already; then nothing is fitted.
    sample_weight : array-like of shape (n_samples,), optional
        As in the model's fit.
    fit_params, test_params : dict, optional
        What else there is for each sample of X and of X_test: offset, exposure.
    title : str, optional
        By default the kind of model.

    Returns
    -------
    str
        HTML, to be stored as UTF-8. Names of features and classes are shown as they are and can do nothing.

    See Also
    --------
    write_page : The same into a file.
    """
    training, testing = samples_of(X, y, sample_weight, fit_params), held_out(test, test_params)
    family = family_of(
        model, X, y, n_features=n_features, level=level, sample_weight=sample_weight, fit_params=fit_params, fits=fits
    )
    said = storable(page_content(family, training, testing))
    heading = storable(title or type(model).__name__)
    return _written(said, family, heading, _subtitle(family, training, testing))


def write_page(path: str | os.PathLike[str], model: Any, X: object, y: ArrayLike, **options: Any) -> None:
    """Write the page of a model into a file, which is there as a whole or not at all.

    Parameters
    ----------
    path : path-like
        Where; a file that is there is replaced.
    model, X, y, **options
        As in `page`.
    """
    atomic.write(path, [page(model, X, y, **options).encode("utf-8")])


def _subtitle(family: Family, training: Samples, testing: Samples | None) -> str:
    """What was fitted to what."""
    model = family.model
    words = [f"{str(model.loss_.name).replace('_', ' ')} loss"]
    if family.by == "level":
        words.append(f"{type(model.constraint_).__name__} constraint")
    words.append(f"{training.there.size:,} samples × {model.n_features_in_:,} features".replace(",", "\u202f"))
    if hasattr(model, "classes_"):
        words.append(f"{model.classes_.size} classes")
    if testing is not None:
        words.append(f"{testing.there.size:,} test samples".replace(",", "\u202f"))
    return " · ".join(words)


def _written(said: dict[str, Any], family: Family, title: str, subtitle: str) -> str:
    style = _read("page.css").replace("/* palette */", _palette())
    script = '\n(() => {\n"use strict";\n' + "\n".join(map(_read, _SCRIPTS)) + "})();\n"
    fit = said["fits"][family.own]
    tested = "test data" if said["outcome"]["of"] == "test" else "training data"
    return Template(_read("page.html")).substitute(
        policy=f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; "
        "form-action 'none'",
        style=style,
        script=script,
        data=_json(said),
        title=text(title),
        subtitle=text(subtitle),
        notice=f'<p class="notice">{text(said["notice"])}</p>' if said["notice"] else "",
        label=text(fit["label"]),
        last=len(said["fits"]) - 1,
        own=family.own,
        tiles=tiles(fit),
        width="several" if said["several"] else "one",
        head=head(said),
        rows=rows(said, fit),
        sign=text(said["sign"]),
        left_out=text(fit["left_out"]),
        status=text(fit["status"][0]),
        kind=fit["status"][1],
        facts=facts(fit),
        outcome="Confusion matrix" if said["outcome"]["kind"] == "classes" else "Residuals",
        tested=tested,
        classes=classes(said["outcome"], family.own),
        versions=text(", ".join(f"{name} {metadata.version(name)}" for name in _PACKAGES)),
    )


_SCRIPTS = ("elements.js", "charts.js", "page.js")  # in this order, in one scope
_PACKAGES = ("levelprox", "numpy", "scipy", "scikit-learn")


def _read(name: str) -> str:
    return resources.files("levelprox.report.page").joinpath(name).read_text(encoding="utf-8")


def _palette() -> str:
    return " ".join(f"--line-{i}: {colour};" for i, colour in enumerate(COLOURS))


def _hash(source: str) -> str:
    """What the policy calls a piece of the page that is allowed: only this script and this style."""
    digest = hashlib.sha256(source.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _json(said: dict[str, Any]) -> str:
    """JSON in which no name can end the element that it stands in."""
    plain = json.dumps(said, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


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

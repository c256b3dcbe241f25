"""The document: what a page says, written into its template, with a policy that lets nothing else in."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Sequence
from importlib import metadata, resources
from string import Template
from typing import Any

from numpy.typing import ArrayLike

from levelprox.io import atomic
from levelprox.report.drawing import COLOURS
from levelprox.report.page import written
from levelprox.report.page.content import content
from levelprox.report.page.family import Family, family_of
from levelprox.report.page.judged import Samples, held_out, samples_of


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
    said = written.storable(content(family, training, testing))
    heading = written.storable(title or type(model).__name__)
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
    words = [f"{str(model._loss().name).replace('_', ' ')} loss"]
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
        title=written.text(title),
        subtitle=written.text(subtitle),
        notice=f'<p class="notice">{written.text(said["notice"])}</p>' if said["notice"] else "",
        label=written.text(fit["label"]),
        last=len(said["fits"]) - 1,
        own=family.own,
        tiles=written.tiles(fit),
        width="several" if said["several"] else "one",
        head=written.head(said),
        rows=written.rows(said, fit),
        sign=written.text(said["sign"]),
        left_out=written.text(fit["left_out"]),
        status=written.text(fit["status"][0]),
        kind=fit["status"][1],
        facts=written.facts(fit),
        outcome="Confusion matrix" if said["outcome"]["kind"] == "classes" else "Residuals",
        tested=tested,
        classes=written.classes(said["outcome"], family.own),
        versions=written.text(", ".join(f"{name} {metadata.version(name)}" for name in _PACKAGES)),
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

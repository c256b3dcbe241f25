"""Wrong calls of functions and methods."""

from __future__ import annotations

from pathlib import Path

from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Lasso, LogisticRegression

import levelprox
from benchmarks.first_use.case import Case
from benchmarks.first_use.data import (
    PANDAS,
    PLOT,
    drawn,
    frame,
    labels,
    samples,
    streamed,
    target,
)
from levelprox import (
    ConvergenceDisplay,
    CVDisplay,
    InvalidInputError,
    LinearModel,
    PathDisplay,
    Problem,
    SparseClassifier,
    SparseRegressor,
    SparseRegressorCV,
    best_subset,
    constraints,
    solve,
    subset_path,
)

FUNCTIONS = (
    Case(
        "best_subset of arrays",
        lambda: best_subset(samples(), target(), 3),
        "raises",
        ("ndarray", "best_subset(LinearModel(X, y), k)", "fit_intercept=True", "SparseRegressor(n_features=k)"),
    ),
    Case(
        "best_subset of a table",
        lambda: best_subset(frame(), target(), k=3),
        "raises",
        ("DataFrame", "best_subset(LinearModel(X, y), k)"),
        needs=PANDAS,
    ),
    Case(
        "subset_path of arrays",
        lambda: subset_path(samples(), target(), [1, 2]),
        "raises",
        ("subset_path(LinearModel(X, y), [1, 2, 3])",),
    ),
    Case(
        "best_subset of a model without k",
        lambda: best_subset(LinearModel(samples(), target())),
        "raises",
        ("give k, how many features may be nonzero",),
        InvalidInputError,
    ),
    Case(
        "best_subset of an estimator",
        lambda: best_subset(SparseRegressor(), 3),
        "raises",
        ("SparseRegressor", "LinearModel(X, y)", "fit(X, y)"),
    ),
    Case(
        "best_subset of a list of k",
        lambda: best_subset(LinearModel(samples(), target()), [1, 2]),
        "raises",
        ("k", "[1, 2]", "subset_path"),
    ),
    Case(
        "solve with arrays",
        lambda: solve(samples(), target()),
        "raises",
        ("Problem(LinearModel(X, y)", "SparseRegressor"),
    ),
    Case(
        "Problem with arrays",
        lambda: Problem(samples(), constraints.MCP.from_threshold(0.5), 2.5),
        "raises",
        ("LinearModel(X, y",),
    ),
    Case(
        "Problem with a constraint's name",
        lambda: Problem(LinearModel(samples(), target()), "mcp", 2.5),
        "raises",
        ("constraint", "'mcp'", "MCP"),
    ),
    Case(
        "words as targets of a model",
        lambda: LinearModel(samples(), labels(), "logistic"),
        "raises",
        ("targets", "'no'"),
    ),
    Case(
        "0 and 1 as targets of the logistic loss",
        lambda: LinearModel(samples(), (target() > 0).astype(float), "logistic"),
        "raises",
        ("-1", "+1", "2*y - 1"),
    ),
    Case(
        "the path of a foreign estimator",
        drawn(lambda: PathDisplay.from_estimator(Lasso(), samples(), target())),
        "raises",
        ("PathDisplay", "Lasso", "SparseRegressor"),
        needs=PLOT,
    ),
    Case(
        "the history of a foreign estimator",
        drawn(lambda: ConvergenceDisplay.from_estimator(LogisticRegression().fit(samples(), labels()))),
        "raises",
        ("ConvergenceDisplay", "LogisticRegression", "SparseClassifier"),
        needs=PLOT,
    ),
    Case(
        "the choice of a foreign estimator",
        drawn(lambda: CVDisplay.from_estimator(LogisticRegression().fit(samples(), labels()))),
        "raises",
        ("CVDisplay", "LogisticRegression", "SparseClassifierCV"),
        needs=PLOT,
    ),
    Case(
        "the choice of an estimator that does not choose",
        drawn(lambda: CVDisplay.from_estimator(SparseRegressor().fit(samples(), target()))),
        "raises",
        ("CVDisplay", "SparseRegressorCV"),
        needs=PLOT,
    ),
    Case(
        "the choice of a class",
        drawn(lambda: CVDisplay.from_estimator(SparseRegressorCV)),
        "raises",
        ("SparseRegressorCV", "()"),
        needs=PLOT,
    ),
    Case(
        "the history of a model that is not fitted",
        drawn(lambda: ConvergenceDisplay.from_estimator(SparseRegressor())),
        "raises",
        ("SparseRegressor", "fit"),
        NotFittedError,
        PLOT,
    ),
    Case(
        "a report of a foreign estimator",
        lambda: levelprox.report.write_page(Path("page.html"), Lasso(), samples(), target()),
        "raises",
        ("Lasso", "SparseRegressor"),
    ),
    Case(
        "the certificate of a stream",
        lambda: streamed().certificate_,
        "raises",
        ("certificate_", "partial_fit", "fit(X, y)"),
        AttributeError,
    ),
    Case(
        "the message of a stream",
        lambda: streamed().message_,
        "raises",
        ("message_", "partial_fit"),
        AttributeError,
    ),
    Case(
        "the certificate of a model that is not fitted",
        lambda: SparseRegressor().certificate_,
        "raises",
        ("certificate_", "fit"),
        AttributeError,
    ),
    Case(
        "certify_model of a foreign estimator",
        lambda: levelprox.certify_model(Lasso().fit(samples(), target()), samples(), target()),
        "raises",
        ("Lasso", "SparseRegressor"),
    ),
    Case(
        "a file that is not there",
        lambda: levelprox.load("no such file.levelprox"),
        "raises",
        ("no such file.levelprox",),
        FileNotFoundError,
    ),
    Case(
        "partial_fit of a classifier without classes",
        lambda: SparseClassifier(n_features=2).partial_fit(samples(), labels()),
        "raises",
        ("classes", "partial_fit", "np.unique(y)"),
    ),
    Case(
        "a name that does not exist",
        lambda: levelprox.SparseClassfier,
        "raises",
        ("SparseClassfier", "SparseClassifier"),
        AttributeError,
    ),
)

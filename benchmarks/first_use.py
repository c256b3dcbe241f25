"""First-use calls and mistakes, and what each should do: the list that `python -m benchmarks.first_use` runs.

A case is a call that a new user makes in the first hour. It works, it warns, or it raises an error; then the message
must name the argument, the value and the remedy. `words` are parts of the text that must be there: of what is returned,
of the warnings, or of the error. Errors are `Exception`s of `kind`, and no case may warn unless it is said here.

    python -m benchmarks.first_use [--all]

prints the cases that do not do what is written here (`--all`: the text of each), and their number.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import levelprox
from levelprox import (
    ConvergenceDisplay,
    CVDisplay,
    InvalidInputError,
    LinearModel,
    PathDisplay,
    Problem,
    SparseClassifier,
    SparseClassifierCV,
    SparseRegressor,
    SparseRegressorCV,
    best_subset,
    constraints,
    solve,
    subset_path,
)

Outcome = Literal["works", "warns", "raises"]
NAMES = ("age", "sex", "height", "weight", "income")


@dataclass(frozen=True)
class Case:
    """One call of a new user.

    Attributes
    ----------
    name : str
    call : callable
        Its result, or the error that it raises, is checked.
    outcome : {"works", "warns", "raises"}
    words : tuple of str
        What must be in the text: of the result, of the warnings or of the error.
    kind : type
        Of the error, or of the first warning.
    needs : tuple of str
        Packages without which the case is left out.
    """

    name: str
    call: Callable[[], Any]
    outcome: Outcome = "works"
    words: tuple[str, ...] = ()
    kind: type[BaseException] = InvalidInputError
    needs: tuple[str, ...] = ()

    def can_run(self) -> bool:
        """Return whether all packages are there."""
        return all(importlib.util.find_spec(name) is not None for name in self.needs)


@dataclass(frozen=True)
class Outturn:
    """What a case did.

    Attributes
    ----------
    outcome : str
        "works", "warns" or "raises".
    text : str
        Of the result, of the warnings or of the error.
    wrong : str
        In which way this is not what is expected; empty where it is.
    """

    outcome: str
    text: str
    wrong: str


def run(case: Case) -> Outturn:
    """Make the call and compare what it does with what is expected."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result, error = case.call(), None
        except Exception as raised:
            result, error = None, raised
    if error is not None:
        outcome, text, first = "raises", str(error), type(error)
    elif caught:
        outcome, text, first = "warns", " | ".join(str(one.message) for one in caught), caught[0].category
    else:
        outcome, text, first = "works", str(result), None
    wrong = []
    if outcome != case.outcome:
        wrong.append(f"{outcome}, not {case.outcome}")
    elif first is not None and not issubclass(first, case.kind):
        wrong.append(f"{first.__name__}, not {case.kind.__name__}")
    missing = [words for words in case.words if words not in text]
    if missing:
        wrong.append(f"does not say {', '.join(map(repr, missing))}")
    return Outturn(outcome, f"{first.__name__ + ': ' if first else ''}{text}", "; ".join(wrong))


# --- data


@cache
def _people() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, len(NAMES)))
    return X, X[:, 0] - 2 * X[:, 3] + 0.5 * rng.standard_normal(80)


def frame(**columns: Any) -> Any:
    """Return a small table with names; columns may be replaced or added."""
    import pandas as pd

    return pd.DataFrame(_people()[0], columns=list(NAMES)).assign(**columns)


def polars_frame() -> Any:
    """Return the same table as a polars frame."""
    import polars as pl

    return pl.DataFrame(_people()[0], schema=list(NAMES))


def samples() -> np.ndarray:
    """Return the same table without names."""
    return _people()[0]


def target() -> np.ndarray:
    """Return a number for each row."""
    return _people()[1]


def labels() -> np.ndarray:
    """Two classes."""
    return np.where(target() > 0, "yes", "no")


def three() -> np.ndarray:
    """Three classes, in order: folds that are not shuffled miss some of them."""
    return np.repeat(["a", "b", "c"], (30, 30, 20))


def with_entry(value: Any, column: str = "height", row: int = 7) -> Any:
    """Return the table with one entry replaced."""
    X = frame()
    if isinstance(value, str):
        X[column] = X[column].astype(object)
    X.loc[row, column] = value
    return X


def dates() -> Any:
    """One date for each row."""
    import pandas as pd

    return pd.date_range("2024-01-01", periods=80)


@contextmanager
def _without_windows() -> Iterator[None]:
    """Draw to memory."""
    import matplotlib

    before = matplotlib.get_backend()
    matplotlib.use("agg")
    try:
        yield
    finally:
        import matplotlib.pyplot as plt

        plt.close("all")
        matplotlib.use(before)


def drawn(draw: Callable[[], Any]) -> Callable[[], str]:
    """Return a call that draws, and closes the figure."""

    def call() -> str:
        with _without_windows():
            return type(draw()).__name__

    return call


def printed(fit: Callable[[], Any]) -> Callable[[], str]:
    """Return a call whose result is what a fit writes to standard error."""

    def call() -> str:
        with redirect_stderr(io.StringIO()) as stream:
            fit()
        return stream.getvalue()

    return call


def fitted(kind: type = SparseRegressor, **options: Any) -> Any:
    """Return a model of the table."""
    y = labels() if kind in (SparseClassifier, SparseClassifierCV) else target()
    return kind(**options).fit(frame(), y)


def streamed() -> Any:
    """Return a model of batches."""
    model = SparseRegressor(n_features=2)
    for rows in np.array_split(np.arange(80), 4):
        model.partial_fit(samples()[rows], target()[rows])
    return model


def saved_and_loaded() -> list[str]:
    """Return the features of a model that was written to a file and read again."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.levelprox"
        fitted(n_features=2).save(path)
        return list(levelprox.load(path).get_feature_names_out())


def names_of(model: Any) -> list[str]:
    """Return the features of a fitted model."""
    return [str(name) for name in model.get_feature_names_out()]


# --- the list

_PANDAS, _POLARS, _PLOT = ("pandas",), ("polars", "pyarrow"), ("matplotlib", "pandas")

WORKING = (
    Case(
        "classifier without a parameter",
        lambda: SparseClassifier().fit(samples(), labels()).message_,
        words=("Solved",),
    ),
    Case(
        "regressor without a parameter", lambda: SparseRegressor().fit(samples(), target()).message_, words=("Solved",)
    ),
    Case("lists instead of arrays", lambda: SparseRegressor().fit(samples().tolist(), target().tolist()).message_),
    Case("a table", lambda: names_of(fitted(n_features=2)), words=("age", "weight"), needs=_PANDAS),
    Case(
        "a table of polars",
        lambda: names_of(SparseRegressor(n_features=2).fit(polars_frame(), target())),
        words=("age", "weight"),
        needs=_POLARS,
    ),
    Case("y as a column", lambda: SparseRegressor().fit(frame(), frame()["age"]).message_, needs=_PANDAS),
    Case("a sparse matrix", lambda: SparseRegressor().fit(scipy.sparse.csr_matrix(samples()), target()).message_),
    Case("booleans as classes", lambda: SparseClassifier().fit(samples(), target() > 0).predict(samples()).dtype),
    Case("three classes", lambda: SparseClassifier(n_features=2).fit(*load_iris(return_X_y=True)).message_),
    Case("loss in capitals", lambda: SparseClassifier("Logistic").fit(samples(), labels()).message_),
    Case(
        "constraint in capitals", lambda: SparseRegressor(level=1.5, constraint="MCP").fit(samples(), target()).message_
    ),
    Case("loss with a hyphen", lambda: SparseClassifier("squared-hinge").fit(samples(), labels()).message_),
    Case("criterion in capitals", lambda: SparseRegressorCV(criterion="BIC").fit(samples(), target()).message_),
    Case("more features than there are", lambda: SparseRegressor(n_features=50).fit(samples(), target()).message_),
    Case("n_features of NumPy", lambda: SparseRegressor(n_features=np.int64(2)).fit(samples(), target()).message_),
    Case(
        "one feature",
        lambda: SparseRegressor(n_features=1).fit(samples(), target()).message_,
        words=("1 feature of at most 1",),
    ),
    Case("the loss in words", lambda: fitted(n_features=2).message_, words=("loss", "swaps"), needs=_PANDAS),
    Case(
        "the certificate has names",
        lambda: fitted(n_features=1).certificate_,
        words=("loss", "swaps", "'age'"),
        needs=_PANDAS,
    ),
    Case("keep by name", lambda: names_of(fitted(n_features=1, keep=["sex"])), words=("sex", "weight"), needs=_PANDAS),
    Case("keep one name", lambda: names_of(fitted(n_features=1, keep="sex")), words=("sex", "weight"), needs=_PANDAS),
    Case("keep by index", lambda: SparseRegressor(n_features=1, keep=[1]).fit(samples(), target()).selected_features_),
    Case(
        "feature_weight by name",
        lambda: names_of(fitted(n_features=1, feature_weight={"sex": 0})),
        words=("sex", "weight"),
        needs=_PANDAS,
    ),
    Case("positive by name", lambda: fitted(n_features=2, positive=["weight"]).coef_, needs=_PANDAS),
    Case("best_subset of a model", lambda: best_subset(LinearModel(samples(), target()), 2).support, words=("0 3",)),
    Case(
        "in a pipeline",
        lambda: (
            make_pipeline(StandardScaler(), SparseClassifier(n_features=2))
            .fit(samples(), labels())
            .score(samples(), labels())
        ),
    ),
    Case("cross_val_score", lambda: cross_val_score(SparseRegressor(n_features=2), samples(), target()).shape),
    Case(
        "GridSearchCV",
        lambda: GridSearchCV(SparseRegressor(), {"n_features": [1, 2]}).fit(samples(), target()).best_params_,
    ),
    Case("a model in a file", saved_and_loaded, words=("age", "weight"), needs=_PANDAS),
    Case(
        "the README's first lines",
        lambda: SparseClassifier(n_features=3).fit(*load_breast_cancer(return_X_y=True)).certificate_,
        words=("3 ≤ 3",),
    ),
    Case(
        "progress of a choice counts fits",
        printed(lambda: SparseRegressorCV(n_features=[2, 10], cv=3, verbose=1).fit(*load_diabetes(return_X_y=True))),
        words=("of 6 fits",),
    ),
    Case("a path", drawn(lambda: PathDisplay.from_estimator(SparseRegressor(), samples(), target())), needs=_PLOT),
    Case(
        "a path in a pipeline's last step",
        drawn(
            lambda: PathDisplay.from_estimator(
                make_pipeline(StandardScaler(), SparseRegressor(n_features=2)), samples(), target()
            )
        ),
        "raises",
        ("Pipeline", "SparseRegressor", "last step"),
        needs=_PLOT,
    ),
)

_REGRESSOR, _CLASSIFIER = SparseRegressor(n_features=2), SparseClassifier(n_features=2)

DATA = (
    Case(
        "a column of dates",
        lambda: SparseRegressor().fit(frame(day=dates()), target()),
        "raises",
        ("'day'", "datetime64", "days"),
        needs=_PANDAS,
    ),
    Case(
        "a column of durations",
        lambda: SparseRegressor().fit(frame(stay=dates() - dates()[0]), target()),
        "raises",
        ("'stay'", "timedelta64", "total_seconds"),
        needs=_PANDAS,
    ),
    Case(
        "a column of periods",
        lambda: SparseRegressor().fit(frame(month=dates().to_period("M")), target()),
        "raises",
        ("'month'", "period"),
        needs=_PANDAS,
    ),
    Case(
        "only dates",
        lambda: SparseRegressor().fit(frame(day=dates())[["day"]], target()),
        "raises",
        ("'day'", "datetime64", "days"),
        needs=_PANDAS,
    ),
    Case(
        "dates of polars",
        lambda: SparseRegressor().fit(
            polars_frame().with_columns(__import__("polars").Series("day", dates().to_pydatetime())), target()
        ),
        "raises",
        ("'day'", "days"),
        needs=("pandas", *_POLARS),
    ),
    Case(
        "an array of dates",
        lambda: SparseRegressor().fit(np.full((80, 2), np.datetime64("2024-01-01")), target()),
        "raises",
        ("column 0", "datetime64", "timedelta64(1, 'D')"),
    ),
    Case(
        "a column of words",
        lambda: SparseRegressor().fit(frame(city=np.where(target() > 0, "Oslo", "Rome")), target()),
        "raises",
        ("'city'", "OneHotEncoder"),
        needs=_PANDAS,
    ),
    Case(
        "a categorical column",
        lambda: SparseRegressor().fit(frame(city=frame(c=labels())["c"].astype("category")), target()),
        "raises",
        ("'city'", "OneHotEncoder"),
        needs=_PANDAS,
    ),
    Case(
        "a word in a column of numbers",
        lambda: SparseRegressor().fit(with_entry("unknown"), target()),
        "raises",
        ("'unknown'", "row 7", "'height'"),
        needs=_PANDAS,
    ),
    Case(
        "a missing value",
        lambda: SparseRegressor().fit(with_entry(np.nan), target()),
        "raises",
        ("NaN", "row 7", "'height'", "SimpleImputer"),
        needs=_PANDAS,
    ),
    Case(
        "words as targets of a regressor",
        lambda: SparseRegressor().fit(samples(), labels()),
        "raises",
        ("y ", "SparseRegressor", "'no'", "SparseClassifier"),
    ),
    Case(
        "words as targets of a regressor that chooses",
        lambda: SparseRegressorCV().fit(samples(), labels()),
        "raises",
        ("y ", "'no'", "SparseClassifierCV"),
    ),
    Case(
        "a column of words as targets of a regressor",
        lambda: SparseRegressor().fit(samples(), frame(c=labels())["c"]),
        "raises",
        ("y ", "'no'", "SparseClassifier"),
        needs=_PANDAS,
    ),
    Case(
        "dates as targets",
        lambda: SparseRegressor().fit(samples(), dates()),
        "raises",
        ("y ", "datetime64", "days"),
        needs=_PANDAS,
    ),
    Case(
        "numbers as classes",
        lambda: SparseClassifier().fit(samples(), target()),
        "raises",
        ("y ", "continuous", "SparseRegressor"),
    ),
    Case(
        "numbers as classes of a classifier that chooses",
        lambda: SparseClassifierCV().fit(samples(), target()),
        "raises",
        ("y ", "continuous", "SparseRegressor"),
    ),
    Case(
        "y of several columns",
        lambda: SparseRegressor().fit(samples(), samples()[:, :2]),
        "raises",
        ("y ", "(80, 2)", "one"),
    ),
    Case("y of one column", lambda: SparseRegressor().fit(samples(), target()[:, None]), "warns", ("1d",), UserWarning),
    Case(
        "a table as y",
        lambda: SparseRegressor().fit(frame(), frame()[["age", "sex"]]),
        "raises",
        ("y ", "(80, 2)"),
        needs=_PANDAS,
    ),
    Case("no y", lambda: SparseRegressor().fit(samples(), None), "raises", ("y", "SparseRegressor"), ValueError),
    Case(
        "y and X swapped",
        lambda: SparseRegressor().fit(target(), samples()),
        "raises",
        ("X has one dimension", "swapped", "fit(X, y)"),
        ValueError,
    ),
    Case(
        "rows that do not match",
        lambda: SparseRegressor().fit(samples()[:70], target()),
        "raises",
        ("X", "70", "y", "80"),
        ValueError,
    ),
    Case(
        "one class only",
        lambda: SparseClassifier().fit(samples(), np.ones(80)),
        "raises",
        ("one class", "1.0"),
    ),
    Case(
        "a lazy table of polars",
        lambda: SparseRegressor().fit(polars_frame().lazy(), target()),
        "raises",
        ("LazyFrame", ".collect()"),
        needs=_POLARS,
    ),
    Case(
        "a lazy table of polars to predict for",
        lambda: _REGRESSOR.fit(polars_frame(), target()).predict(polars_frame().lazy()),
        "raises",
        ("LazyFrame", ".collect()"),
        needs=_POLARS,
    ),
    Case(
        "a path instead of a table",
        lambda: SparseRegressor().fit("train.csv", target()),
        "raises",
        ("'train.csv'", "read_data"),
    ),
    Case(
        "a dict instead of a table",
        lambda: SparseRegressor().fit({"age": [1, 2], "sex": [0, 1]}, [1, 2]),
        "raises",
        ("dict", "DataFrame"),
    ),
    Case(
        "columns in another order",
        lambda: fitted(n_features=2).predict(frame()[list(NAMES[::-1])]),
        "raises",
        ("feature names", "order"),
        ValueError,
        _PANDAS,
    ),
    Case(
        "a missing column",
        lambda: fitted(n_features=2).predict(frame().drop(columns="age")),
        "raises",
        ("age",),
        ValueError,
        _PANDAS,
    ),
    Case(
        "predict before fit",
        lambda: SparseRegressor().predict(samples()),
        "raises",
        ("SparseRegressor", "fit"),
        NotFittedError,
    ),
)

PARAMETERS = (
    Case(
        "a list of numbers of features",
        lambda: SparseClassifier(n_features=[3, 5, 10]).fit(samples(), labels()),
        "raises",
        ("n_features", "[3, 5, 10]", "SparseClassifierCV"),
    ),
    Case(
        "a range of numbers of features",
        lambda: SparseRegressor(n_features=range(1, 4)).fit(samples(), target()),
        "raises",
        ("n_features", "range(1, 4)", "SparseRegressorCV"),
    ),
    Case(
        "a list of levels",
        lambda: SparseRegressor(level=[1.5, 2.5]).fit(samples(), target()),
        "raises",
        ("level", "[1.5, 2.5]", "SparseRegressorCV"),
    ),
    Case(
        "n_features as a fraction",
        lambda: SparseRegressor(n_features=0.5).fit(samples(), target()),
        "raises",
        ("n_features", "0.5", "integer"),
    ),
    Case(
        "n_features of -1",
        lambda: SparseRegressor(n_features=-1).fit(samples(), target()),
        "raises",
        ("n_features", "-1", "at least 0"),
    ),
    Case(
        "n_features as a word",
        lambda: SparseRegressor(n_features="auto").fit(samples(), target()),
        "raises",
        ("n_features", "'auto'", "SparseRegressorCV"),
    ),
    Case(
        "both budgets",
        lambda: SparseRegressor(n_features=2, level=2.5).fit(samples(), target()),
        "raises",
        ("either n_features or level",),
    ),
    Case(
        "k instead of n_features",
        lambda: SparseRegressor(k=3),
        "raises",
        ("k",),
        TypeError,
    ),
    Case(
        "X for the constructor",
        lambda: SparseRegressor(samples(), target()),
        "raises",
        (),
        TypeError,
    ),
    Case(
        "a number of features for the constructor",
        lambda: SparseRegressor(3).fit(samples(), target()),
        "raises",
        ("loss", "3", "n_features=3"),
    ),
    Case(
        "a loss that is misspelt",
        lambda: SparseClassifier("logistik").fit(samples(), labels()),
        "raises",
        ("loss", "'logistik'", "did you mean 'logistic'"),
    ),
    Case(
        "a loss by its other name",
        lambda: SparseRegressor("mse").fit(samples(), target()),
        "raises",
        ("loss", "'mse'", "'squared'"),
    ),
    Case(
        "log loss by scikit-learn's name",
        lambda: SparseClassifier("log_loss").fit(samples(), labels()),
        "raises",
        ("loss", "'log_loss'", "'logistic'"),
    ),
    Case(
        "a classifier's loss for a regressor",
        lambda: SparseRegressor("logistic").fit(samples(), target()),
        "raises",
        ("loss", "'logistic'", "SparseClassifier"),
    ),
    Case(
        "a constraint that is misspelt",
        lambda: SparseRegressor(level=1.5, constraint="mpc").fit(samples(), target()),
        "raises",
        ("constraint", "'mpc'", "did you mean 'mcp'"),
    ),
    Case(
        "a constraint without a level",
        lambda: SparseRegressor(n_features=2, constraint="l1").fit(samples(), target()),
        "raises",
        ("constraint", "'l1'", "level"),
    ),
    Case(
        "a class instead of a constraint",
        lambda: SparseRegressor(level=1.5, constraint=constraints.MCP).fit(samples(), target()),
        "raises",
        ("constraint", "MCP", "()"),
    ),
    Case(
        "probabilities of the hinge loss",
        lambda: SparseClassifier("hinge", n_features=2).fit(samples(), labels()).predict_proba(samples()),
        "raises",
        ("predict_proba", "hinge", "logistic", "decision_function"),
        AttributeError,
    ),
    Case(
        "log probabilities of the squared hinge loss",
        lambda: SparseClassifier("squared_hinge", n_features=2).fit(samples(), labels()).predict_log_proba(samples()),
        "raises",
        ("predict_log_proba", "squared_hinge", "logistic"),
        AttributeError,
    ),
    Case(
        "probabilities of a regressor",
        lambda: SparseRegressor().fit(samples(), target()).predict_proba(samples()),
        "raises",
        ("predict_proba",),
        AttributeError,
    ),
    Case(
        "an unknown name to keep",
        lambda: fitted(n_features=1, keep=["agge"]),
        "raises",
        ("keep", "'agge'", "did you mean 'age'"),
        needs=_PANDAS,
    ),
    Case(
        "an unknown name with a weight",
        lambda: fitted(n_features=1, feature_weight={"incom": 0}),
        "raises",
        ("feature_weight", "'incom'", "did you mean 'income'"),
        needs=_PANDAS,
    ),
    Case(
        "names where X has none",
        lambda: SparseRegressor(n_features=1, keep=["age"]).fit(samples(), target()),
        "raises",
        ("keep", "'age'", "names", "DataFrame"),
    ),
    Case(
        "an index beyond the features",
        lambda: SparseRegressor(n_features=1, keep=[5]).fit(samples(), target()),
        "raises",
        ("keep", "5", "0 to 4"),
    ),
    Case(
        "a class missing from the training part of folds",
        lambda: SparseClassifierCV(n_features=[1, 2], cv=KFold(3)).fit(samples(), three()),
        "warns",
        ("fold 2", "'c'", "StratifiedKFold"),
        UserWarning,
    ),
    Case(
        "folds with one class",
        lambda: SparseClassifierCV(n_features=[1], cv=KFold(2)).fit(samples(), np.repeat([0, 1], 40)),
        "raises",
        ("fold 0", "StratifiedKFold"),
    ),
    Case(
        "more folds than samples of a class",
        lambda: SparseClassifierCV(n_features=[1], cv=5).fit(samples(), np.arange(80) < 3),
        "warns",
        ("n_splits=5",),
        UserWarning,
    ),
    Case(
        "scoring that is misspelt",
        lambda: SparseRegressorCV(n_features=[1], scoring="r_2").fit(samples(), target()),
        "raises",
        ("scoring", "'r_2'"),
        ValueError,
    ),
    Case(
        "class_weight of an unknown class",
        lambda: SparseClassifier(class_weight={"maybe": 2.0}).fit(samples(), labels()),
        "raises",
        ("class_weight", "'maybe'", "['no', 'yes']"),
    ),
    Case(
        "positive of several classes",
        lambda: SparseClassifier(n_features=2, positive=True).fit(*load_iris(return_X_y=True)),
        "raises",
        ("positive", "3 classes"),
    ),
    Case(
        "weights with a word",
        lambda: SparseRegressor().fit(samples(), target(), sample_weight="balanced"),
        "raises",
        ("sample_weight", "'balanced'"),
    ),
    Case(
        "counts that are negative",
        lambda: SparseRegressor("poisson").fit(samples(), target()),
        "raises",
        ("y ", "poisson", "index"),
    ),
    Case(
        "exposure of a squared loss",
        lambda: SparseRegressor().fit(samples(), target(), exposure=np.ones(80)),
        "raises",
        ("exposure", "poisson"),
    ),
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
        needs=_PANDAS,
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
        needs=_PLOT,
    ),
    Case(
        "the history of a foreign estimator",
        drawn(lambda: ConvergenceDisplay.from_estimator(LogisticRegression().fit(samples(), labels()))),
        "raises",
        ("ConvergenceDisplay", "LogisticRegression", "SparseClassifier"),
        needs=_PLOT,
    ),
    Case(
        "the choice of a foreign estimator",
        drawn(lambda: CVDisplay.from_estimator(LogisticRegression().fit(samples(), labels()))),
        "raises",
        ("CVDisplay", "LogisticRegression", "SparseClassifierCV"),
        needs=_PLOT,
    ),
    Case(
        "the choice of an estimator that does not choose",
        drawn(lambda: CVDisplay.from_estimator(SparseRegressor().fit(samples(), target()))),
        "raises",
        ("CVDisplay", "SparseRegressorCV"),
        needs=_PLOT,
    ),
    Case(
        "the choice of a class",
        drawn(lambda: CVDisplay.from_estimator(SparseRegressorCV)),
        "raises",
        ("SparseRegressorCV", "()"),
        needs=_PLOT,
    ),
    Case(
        "the history of a model that is not fitted",
        drawn(lambda: ConvergenceDisplay.from_estimator(SparseRegressor())),
        "raises",
        ("SparseRegressor", "fit"),
        NotFittedError,
        _PLOT,
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

_ONE_WEIGHT = [-1.0, *np.ones(79)]

MORE = (
    Case(
        "a level on data without noise",
        lambda: names_of(SparseRegressor(level=10).fit(frame(), 3 * samples()[:, 0])),
        words=("['age']",),
        needs=_PANDAS,
    ),
    Case("a whole level", lambda: SparseClassifier(level=3).fit(samples(), labels()).message_, words=("Solved",)),
    Case("numbers as words", lambda: SparseRegressor(n_features=2).fit(samples().astype(str), target()).message_),
    Case("true and false as X", lambda: SparseRegressor(n_features=2).fit(samples() > 0, target()).message_),
    Case(
        "a sparse matrix of integers",
        lambda: SparseRegressor(n_features=2).fit(scipy.sparse.csr_matrix((samples() > 0).astype(int)), target()),
    ),
    Case(
        "nullable columns of pandas",
        lambda: SparseRegressor(n_features=2).fit(frame().convert_dtypes(), target()).message_,
        needs=_PANDAS,
    ),
    Case(
        "no features", lambda: fitted(n_features=0).summary(frame(), target()), words=("0 of at most 0",), needs=_PANDAS
    ),
    Case("a constant target", lambda: SparseRegressor(n_features=2).fit(samples(), np.ones(80)).message_),
    Case("one sample", lambda: SparseRegressor().fit(samples()[:1], target()[:1]).message_),
    Case("one column", lambda: SparseRegressor(n_features=3).fit(samples()[:, :1], target()).message_),
    Case("huge values", lambda: SparseRegressor(n_features=2).fit(1e300 * samples(), target()).message_),
    Case("tiny values", lambda: SparseRegressor(n_features=2).fit(1e-300 * samples(), target()).message_),
    Case(
        "features as a table",
        lambda: list(
            SparseRegressor(n_features=2).set_output(transform="pandas").fit(frame(), target()).transform(frame())
        ),
        words=("age", "weight"),
        needs=_PANDAS,
    ),
    Case(
        "positive of one name",
        lambda: fitted(n_features=2, positive="weight"),
        "raises",
        ("positive", "list of features", "'weight'"),
        needs=_PANDAS,
    ),
    Case("ridge in capitals", lambda: SparseClassifier(n_features=1, ridge="AUTO").fit(samples(), labels()).ridge_),
    Case(
        "two columns of one name",
        lambda: SparseRegressor().fit(frame().set_axis(list("abcda"), axis=1), target()),
        "raises",
        ("columns 0 and 4", "'a'", "different names"),
        needs=_PANDAS,
    ),
    Case(
        "an infinite value",
        lambda: SparseRegressor().fit(with_entry(np.inf), target()),
        "raises",
        ("inf", "row 7", "'height'", "Replace"),
        needs=_PANDAS,
    ),
    Case(
        "a missing label of pandas",
        lambda: SparseClassifier().fit(frame(), frame(c=[None, *labels()[1:]])["c"].astype("string")),
        "raises",
        ("y contains NaN", "index 0", "Leave out"),
        needs=_PANDAS,
    ),
    Case(
        "a list of dicts",
        lambda: SparseRegressor().fit([{"age": 1}, {"age": 2}], [1, 2]),
        "raises",
        ("list of dicts", "DataFrame"),
    ),
    Case(
        "several ridges",
        lambda: SparseClassifier(n_features=2, ridge=[0.1, 1]).fit(samples(), labels()),
        "raises",
        ("ridge", "[0.1, 1]", "SparseClassifierCV"),
    ),
    Case(
        "a negative ridge",
        lambda: SparseRegressor(n_features=2, ridge=-1).fit(samples(), target()),
        "raises",
        ("ridge", "nonnegative", "-1"),
    ),
    Case(
        "a negative level",
        lambda: SparseRegressor(level=-1).fit(samples(), target()),
        "raises",
        ("level", "-1"),
        ValueError,
    ),
    Case(
        "an infinite level",
        lambda: SparseRegressor(level=np.inf).fit(samples(), target()),
        "raises",
        ("level", "inf", "n_features"),
    ),
    Case(
        "an unknown name with a cost",
        lambda: fitted(feature_cost={"agee": 2}, budget=4),
        "raises",
        ("feature_cost", "'agee'", "did you mean 'age'"),
        needs=_PANDAS,
    ),
    Case(
        "costs without a budget",
        lambda: SparseRegressor(feature_cost=[1] * 5).fit(samples(), target()),
        "raises",
        ("feature_cost needs budget",),
    ),
    Case(
        "a mask that is too short",
        lambda: SparseRegressor(n_features=1, keep=[True, False]).fit(samples(), target()),
        "raises",
        ("keep", "2 features", "X has 5"),
    ),
    Case(
        "a negative weight",
        lambda: SparseRegressor().fit(samples(), target(), sample_weight=_ONE_WEIGHT),
        "raises",
        ("sample_weight", "-1.0", "index 0"),
    ),
    Case(
        "weights of zero",
        lambda: SparseRegressor().fit(samples(), target(), sample_weight=np.zeros(80)),
        "raises",
        ("sample_weight", "all zero"),
    ),
    Case(
        "y of another length",
        lambda: SparseRegressor().fit(samples(), target()[:79]),
        "raises",
        ("[80, 79]", "of X and of y"),
    ),
    Case(
        "several targets",
        lambda: SparseRegressor().fit(samples(), np.c_[target(), target()]),
        "raises",
        ("(80, 2)", "one for each column of y"),
    ),
    Case(
        "other columns to predict for",
        lambda: SparseRegressor(n_features=2).fit(samples(), target()).predict(samples()[:, :4]),
        "raises",
        ("4 features", "5 features"),
        ValueError,
    ),
    Case("a summary before fit", lambda: SparseRegressor().summary(samples(), target()), "raises", (), NotFittedError),
    Case(
        "no subsamples",
        lambda: fitted(n_features=2).stability(frame(), target(), n_resamples=0),
        "raises",
        ("n_resamples", "at least 1", "0"),
        needs=_PANDAS,
    ),
)

CASES = (*WORKING, *DATA, *PARAMETERS, *FUNCTIONS, *MORE)


def main(arguments: list[str] | None = None) -> int:
    """Run all cases; return how many do not do what is expected."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="print the text of each case")
    options = parser.parse_args(arguments)
    left_out = [case for case in CASES if not case.can_run()]
    wrong = 0
    for case in CASES:
        if case in left_out:
            continue
        done = run(case)
        wrong += bool(done.wrong)
        if options.all or done.wrong:
            print(f"{'WRONG' if done.wrong else 'ok   '}  {case.name}\n       {done.text[:1000]}")
        if done.wrong:
            print(f"       -> {done.wrong}")
    print(f"{len(CASES) - len(left_out)} cases, {wrong} not as expected, {len(left_out)} left out (packages missing)")
    return wrong


if __name__ == "__main__":
    sys.exit(bool(main()))

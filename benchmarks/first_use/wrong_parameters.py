"""Calls with wrong parameters of estimators."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_iris
from sklearn.model_selection import KFold

from benchmarks.first_use.case import Case
from benchmarks.first_use.data import (
    PANDAS,
    fitted,
    labels,
    samples,
    target,
    three,
)
from levelprox import (
    SparseClassifier,
    SparseClassifierCV,
    SparseRegressor,
    SparseRegressorCV,
    constraints,
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
        needs=PANDAS,
    ),
    Case(
        "an unknown name with a weight",
        lambda: fitted(n_features=1, feature_weight={"incom": 0}),
        "raises",
        ("feature_weight", "'incom'", "did you mean 'income'"),
        needs=PANDAS,
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

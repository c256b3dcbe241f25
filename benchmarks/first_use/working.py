"""Calls that work."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.first_use.case import Case
from benchmarks.first_use.data import (
    PANDAS,
    PLOT,
    POLARS,
    drawn,
    fitted,
    frame,
    labels,
    names_of,
    polars_frame,
    printed,
    samples,
    saved_and_loaded,
    target,
)
from levelprox import (
    LinearModel,
    PathDisplay,
    SparseClassifier,
    SparseRegressor,
    SparseRegressorCV,
    best_subset,
)

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
    Case("a table", lambda: names_of(fitted(n_features=2)), words=("age", "weight"), needs=PANDAS),
    Case(
        "a table of polars",
        lambda: names_of(SparseRegressor(n_features=2).fit(polars_frame(), target())),
        words=("age", "weight"),
        needs=POLARS,
    ),
    Case("y as a column", lambda: SparseRegressor().fit(frame(), frame()["age"]).message_, needs=PANDAS),
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
    Case("the loss in words", lambda: fitted(n_features=2).message_, words=("loss", "swaps"), needs=PANDAS),
    Case(
        "the certificate has names",
        lambda: fitted(n_features=1).certificate_,
        words=("loss", "swaps", "'age'"),
        needs=PANDAS,
    ),
    Case("keep by name", lambda: names_of(fitted(n_features=1, keep=["sex"])), words=("sex", "weight"), needs=PANDAS),
    Case("keep one name", lambda: names_of(fitted(n_features=1, keep="sex")), words=("sex", "weight"), needs=PANDAS),
    Case("keep by index", lambda: SparseRegressor(n_features=1, keep=[1]).fit(samples(), target()).selected_features_),
    Case(
        "feature_weight by name",
        lambda: names_of(fitted(n_features=1, feature_weight={"sex": 0})),
        words=("sex", "weight"),
        needs=PANDAS,
    ),
    Case("positive by name", lambda: fitted(n_features=2, positive=["weight"]).coef_, needs=PANDAS),
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
    Case("a model in a file", saved_and_loaded, words=("age", "weight"), needs=PANDAS),
    Case(
        "the README's first lines",
        lambda: SparseClassifier(n_features=3).fit(*load_breast_cancer(return_X_y=True)).certificate_,
        words=("3 ≤ 3",),
    ),
    Case(
        "progress of a choice counts folds",
        printed(lambda: SparseRegressorCV(n_features=[2, 10], cv=3, verbose=1).fit(*load_diabetes(return_X_y=True))),
        words=("of 3 folds",),
    ),
    Case(
        "progress of a choice counts fits",
        printed(
            lambda: SparseRegressorCV("huber", n_features=[2, 10], cv=3, verbose=1).fit(*load_diabetes(return_X_y=True))
        ),
        words=("of 6 fits",),
    ),
    Case("a path", drawn(lambda: PathDisplay.from_estimator(SparseRegressor(), samples(), target())), needs=PLOT),
    Case(
        "a path in a pipeline's last step",
        drawn(
            lambda: PathDisplay.from_estimator(
                make_pipeline(StandardScaler(), SparseRegressor(n_features=2)), samples(), target()
            )
        ),
        "raises",
        ("Pipeline", "SparseRegressor", "last step"),
        needs=PLOT,
    ),
)

"""Further calls: warnings, weights, files, streams and subsamples."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from sklearn.exceptions import NotFittedError

from benchmarks.first_use.case import Case
from benchmarks.first_use.data import (
    PANDAS,
    fitted,
    frame,
    labels,
    names_of,
    samples,
    target,
    with_entry,
)
from levelprox import (
    SparseClassifier,
    SparseRegressor,
)

_ONE_WEIGHT = [-1.0, *np.ones(79)]

MORE = (
    Case(
        "a level on data without noise",
        lambda: names_of(SparseRegressor(level=10).fit(frame(), 3 * samples()[:, 0])),
        words=("['age']",),
        needs=PANDAS,
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
        needs=PANDAS,
    ),
    Case(
        "no features", lambda: fitted(n_features=0).summary(frame(), target()), words=("0 of at most 0",), needs=PANDAS
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
        needs=PANDAS,
    ),
    Case(
        "positive of one name",
        lambda: fitted(n_features=2, positive="weight"),
        "raises",
        ("positive", "list of features", "'weight'"),
        needs=PANDAS,
    ),
    Case("ridge in capitals", lambda: SparseClassifier(n_features=1, ridge="AUTO").fit(samples(), labels()).ridge_),
    Case(
        "two columns of one name",
        lambda: SparseRegressor().fit(frame().set_axis(list("abcda"), axis=1), target()),
        "raises",
        ("columns 0 and 4", "'a'", "different names"),
        needs=PANDAS,
    ),
    Case(
        "an infinite value",
        lambda: SparseRegressor().fit(with_entry(np.inf), target()),
        "raises",
        ("inf", "row 7", "'height'", "Replace"),
        needs=PANDAS,
    ),
    Case(
        "a missing label of pandas",
        lambda: SparseClassifier().fit(frame(), frame(c=[None, *labels()[1:]])["c"].astype("string")),
        "raises",
        ("y contains NaN", "index 0", "Leave out"),
        needs=PANDAS,
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
        needs=PANDAS,
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
        needs=PANDAS,
    ),
)

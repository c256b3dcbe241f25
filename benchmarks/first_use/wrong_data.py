"""Calls with data that cannot be used as they are."""

from __future__ import annotations

import numpy as np
from sklearn.exceptions import NotFittedError

from benchmarks.first_use.case import Case
from benchmarks.first_use.data import (
    NAMES,
    PANDAS,
    POLARS,
    dates,
    fitted,
    frame,
    labels,
    polars_frame,
    samples,
    target,
    with_entry,
)
from levelprox import (
    SparseClassifier,
    SparseClassifierCV,
    SparseRegressor,
    SparseRegressorCV,
)

DATA = (
    Case(
        "a column of dates",
        lambda: SparseRegressor().fit(frame(day=dates()), target()),
        "raises",
        ("'day'", "datetime64", "days"),
        needs=PANDAS,
    ),
    Case(
        "a column of durations",
        lambda: SparseRegressor().fit(frame(stay=dates() - dates()[0]), target()),
        "raises",
        ("'stay'", "timedelta64", "total_seconds"),
        needs=PANDAS,
    ),
    Case(
        "a column of periods",
        lambda: SparseRegressor().fit(frame(month=dates().to_period("M")), target()),
        "raises",
        ("'month'", "period"),
        needs=PANDAS,
    ),
    Case(
        "only dates",
        lambda: SparseRegressor().fit(frame(day=dates())[["day"]], target()),
        "raises",
        ("'day'", "datetime64", "days"),
        needs=PANDAS,
    ),
    Case(
        "dates of polars",
        lambda: SparseRegressor().fit(
            polars_frame().with_columns(__import__("polars").Series("day", dates().to_pydatetime())), target()
        ),
        "raises",
        ("'day'", "days"),
        needs=("pandas", *POLARS),
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
        needs=PANDAS,
    ),
    Case(
        "a categorical column",
        lambda: SparseRegressor().fit(frame(city=frame(c=labels())["c"].astype("category")), target()),
        "raises",
        ("'city'", "OneHotEncoder"),
        needs=PANDAS,
    ),
    Case(
        "a word in a column of numbers",
        lambda: SparseRegressor().fit(with_entry("unknown"), target()),
        "raises",
        ("'unknown'", "row 7", "'height'"),
        needs=PANDAS,
    ),
    Case(
        "a missing value",
        lambda: SparseRegressor().fit(with_entry(np.nan), target()),
        "raises",
        ("NaN", "row 7", "'height'", "SimpleImputer"),
        needs=PANDAS,
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
        needs=PANDAS,
    ),
    Case(
        "dates as targets",
        lambda: SparseRegressor().fit(samples(), dates()),
        "raises",
        ("y ", "datetime64", "days"),
        needs=PANDAS,
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
        needs=PANDAS,
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
        needs=POLARS,
    ),
    Case(
        "a lazy table of polars to predict for",
        lambda: SparseRegressor(n_features=2).fit(polars_frame(), target()).predict(polars_frame().lazy()),
        "raises",
        ("LazyFrame", ".collect()"),
        needs=POLARS,
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
        PANDAS,
    ),
    Case(
        "a missing column",
        lambda: fitted(n_features=2).predict(frame().drop(columns="age")),
        "raises",
        ("age",),
        ValueError,
        PANDAS,
    ),
    Case(
        "predict before fit",
        lambda: SparseRegressor().predict(samples()),
        "raises",
        ("SparseRegressor", "fit"),
        NotFittedError,
    ),
)

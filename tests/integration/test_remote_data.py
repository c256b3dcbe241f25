"""Estimators on Dask, GPU and out-of-core data: the same models, and no data moved implicitly."""

from __future__ import annotations

import contextlib
import functools
import pickle
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline

import levelprox
from levelprox import SparseClassifier, SparseClassifierCV, SparseRegressor, SparseRegressorCV
from levelprox.backends.dask import DaskSource
from levelprox.backends.partition import Form
from levelprox.backends.query import AHEAD
from levelprox.exceptions import CheckpointError, InvalidInputError
from levelprox.losses import Logistic
from levelprox.result import Status
from levelprox.subset import remote_search
from tests.support.clusters import started

N, D = 240, 8
SIZES = (70, 70, 60, 40)
FILE_ROWS = 120
NAMES = [f"c{j}" for j in range(D)]

_rng = np.random.default_rng(0)
X = _rng.normal(0.5, 1.5, (N, D)) * np.linspace(0.5, 3, D)
Z = X[:, 0] - 1.5 * X[:, 3] + 0.5
Y = (Z + _rng.logistic(size=N) > 0).astype(np.int64)
WORDS = np.array(["no", "yes"])[Y]
THREE = np.array(["a", "bb", "c"])[np.digitize(Z + _rng.logistic(size=N), [-1, 1])]
REAL = Z + _rng.standard_t(3, size=N)
WEIGHT = np.where(_rng.random(N) < 0.1, 0.0, _rng.random(N) + 0.2)
EXPOSURE = _rng.random(N) + 0.2
COUNTS = _rng.poisson(np.exp(0.2 * X[:, 0] + 0.1 * X[:, 5]) * EXPOSURE)


@dataclass(frozen=True)
class Place:
    """Where data are put."""

    name: str
    put: Callable[[np.ndarray], Any]
    rows: Callable[[np.ndarray], Any]  # what goes with them


def host(values: Any) -> np.ndarray:
    return np.asarray(values.compute() if hasattr(values, "compute") else values)


def as_frame(values: np.ndarray) -> Any:
    frame = (
        pd.DataFrame(values, columns=[f"c{j}" for j in range(values.shape[1])])
        if values.ndim == 2
        else pd.Series(values)
    )
    return dd.from_pandas(frame, npartitions=3)


@pytest.fixture(params=["array", "frame", pytest.param("tensor", marks=pytest.mark.torch), "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    def file(values: np.ndarray) -> Any:
        np.save(tmp_path / "X.npy", values)
        return levelprox.open_chunked(tmp_path / "X.npy", chunk_bytes=FILE_ROWS * values[0].nbytes)

    return {
        "array": Place("array", in_chunks, in_chunks),
        "frame": Place("frame", as_frame, as_frame),
        "tensor": Place("tensor", tensor, lambda values: values if values.dtype.kind == "U" else tensor(values)),
        "file": Place("file", file, np.asarray),
    }[request.param]


def in_chunks(values: np.ndarray) -> da.Array:
    return da.from_array(values, chunks=(SIZES, *values.shape[1:]))


def tensor(values: np.ndarray) -> Any:
    import torch

    return torch.tensor(values)


@contextlib.contextmanager
def nothing_computed() -> Iterator[None]:
    """Every computation of Dask here is an error."""

    def refused(*args: Any, **options: Any) -> None:
        raise AssertionError("something was computed")

    with dask.config.set(scheduler=refused):
        yield


MODELS: dict[str, tuple[Any, np.ndarray, dict[str, np.ndarray]]] = {
    "two classes": (SparseClassifier(level=2.5, start="direct"), WORDS, {}),
    "three classes": (SparseClassifier(level=2.5, start="direct"), THREE, {}),
    "three, one by one": (SparseClassifier(level=2.5, start="direct", multi_class="ovr"), THREE, {}),
    "level": (SparseClassifier(level=1.5), Y, {}),
    "weighted": (SparseClassifier(n_features=3), Y, {"sample_weight": WEIGHT}),
    "balanced": (SparseClassifier(n_features=2, class_weight="balanced"), Y, {"sample_weight": WEIGHT}),
    "by class": (SparseClassifier(level=1.5, start="direct", class_weight={0: 1, 1: 7}), Y, {}),
    "as it is": (SparseClassifier(level=2.5, start="direct", standardize=False, fit_intercept=False), Y, {}),
    "by default": (SparseClassifier(), Y, {}),
    "nothing": (SparseClassifier(n_features=0), Y, {}),
    "everything": (SparseRegressor(n_features=100), REAL, {}),
    "squared": (SparseRegressor(n_features=2), REAL, {}),
    "kept": (SparseRegressor(n_features=1, feature_weight=[1, 1, 1, 0, 1, 0] + [1] * (D - 6)), REAL, {}),
    "positive": (SparseRegressor(n_features=3, positive=True), REAL, {"sample_weight": WEIGHT}),
    "about zero": (SparseRegressor(n_features=2, fit_intercept=False), REAL, {}),
    "huber": (SparseRegressor("huber", level=2.5, start="direct"), REAL, {"sample_weight": WEIGHT}),
    "poisson": (SparseRegressor("poisson", n_features=2), COUNTS, {"exposure": EXPOSURE}),
    "offset": (SparseRegressor("poisson", level=0.5), COUNTS, {"exposure": EXPOSURE, "offset": Z / 9}),
}


@functools.cache
def in_memory(name: str) -> Any:
    model, y, more = MODELS[name]
    return clone(model).fit(X, y, **more)


@pytest.mark.parametrize("name", MODELS)
def test_the_same_model(place: Place, name: str) -> None:
    model, y, more = MODELS[name]
    here = in_memory(name)
    there = clone(model).fit(place.put(X), place.rows(y), **{key: place.rows(one) for key, one in more.items()})
    assert there.status_ is here.status_
    assert np.array_equal(there.selected_features_, here.selected_features_)
    assert there.certificate_.psi == pytest.approx(here.certificate_.psi, rel=1e-8, abs=1e-10)
    assert there.coef_.dtype == here.coef_.dtype and there.coef_.shape == here.coef_.shape
    np.testing.assert_allclose(there.coef_, here.coef_, atol=2e-5)
    np.testing.assert_allclose(there.intercept_, here.intercept_, atol=1e-4)
    np.testing.assert_allclose(there.scale_, here.scale_, rtol=1e-10)
    assert np.array_equal(getattr(there, "classes_", ()), getattr(here, "classes_", ()))
    assert hasattr(here, "data_fingerprint_") and not hasattr(there, "data_fingerprint_")
    assert hasattr(there, "feature_names_in_") == (place.name == "frame")


def test_float32_and_whole_numbers(place: Place) -> None:
    for dtype in (np.float32, np.int64) if place.name in ("array", "frame") else (np.float32,):
        data = X.astype(dtype)
        here, there = (SparseClassifier(level=2.5).fit(data, Y), SparseClassifier(level=2.5).fit(place.put(data), Y))
        assert there.coef_.dtype == here.coef_.dtype
        assert np.array_equal(there.selected_features_, here.selected_features_)
        assert there.certificate_.psi == pytest.approx(here.certificate_.psi, rel=1e-6)


def test_constant_columns(place: Place) -> None:
    data = X.copy()
    data[:, 1], data[:, 2] = 3.0, 0.0
    here, there = SparseClassifier(n_features=4).fit(data, Y), SparseClassifier(n_features=4).fit(place.put(data), Y)
    assert np.array_equal(there.selected_features_, here.selected_features_)
    assert not np.any(there.coef_[1:3]) and np.array_equal(there.scale_[1:3], here.scale_[1:3])


# Predictions.

PREDICTED = ["two classes", "three classes", "three, one by one", "squared", "poisson", "nothing"]
METHODS = ["predict", "decision_function", "predict_proba", "predict_log_proba", "transform"]


@pytest.mark.parametrize("name", PREDICTED)
def test_predictions_are_where_x_is(place: Place, name: str) -> None:
    model, y, _ = MODELS[name]
    there = clone(model).fit(place.put(X), place.rows(y))
    data, own = place.put(X), there.on_host()
    named = pd.DataFrame(X, columns=NAMES) if place.name == "frame" else X
    for method in METHODS:
        if not hasattr(there, method) or (method == "transform" and place.name == "file"):
            continue
        with nothing_computed():
            found = getattr(there, method)(data)
        expected = np.asarray(getattr(own, method)(named))
        words = method == "predict" and expected.dtype.kind == "U"
        kinds = {"array": da.Array, "frame": da.Array}
        if place.name == "tensor" and not words:
            kinds["tensor"] = type(data)
        assert isinstance(found, kinds.get(place.name, np.ndarray))
        assert host(found).dtype == expected.dtype and host(found).shape == expected.shape
        if place.name in ("array", "frame"):
            assert found.dtype == expected.dtype
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(host(found), expected, rtol=1e-12, atol=1e-12)
        else:
            assert np.array_equal(host(found), expected)
    exact = own.score(named, y)
    assert there.score(data, place.rows(y)) == pytest.approx(exact)
    assert there.score(data, place.rows(y), place.rows(WEIGHT)) == pytest.approx(own.score(named, y, WEIGHT))


def test_predictions_keep_float32_and_labels(place: Place) -> None:
    model = SparseClassifier(n_features=2).fit(place.put(X.astype(np.float32)), place.rows(Y > 0))
    data = place.put(X.astype(np.float32))
    assert host(model.predict_proba(data)).dtype == np.float32
    assert host(model.predict(data)).dtype == np.bool_
    if place.name == "tensor":
        assert isinstance(model.predict(data), type(data))


def test_chunks_of_any_kind() -> None:
    model = SparseClassifier(n_features=2).fit(in_chunks(X), Y)
    expected, lazy = model.predict(X), in_chunks(X)
    unknown = lazy[lazy[:, 0] > -1e9]
    empty = da.concatenate([lazy[:0], lazy])
    sparse = lazy.map_blocks(scipy.sparse.csr_array, dtype=np.float64)
    for data in (lazy.rechunk((60, 5)), unknown, empty, sparse):
        again = SparseClassifier(n_features=2).fit(data, Y)
        np.testing.assert_allclose(again.coef_, model.coef_, atol=1e-9)
        with nothing_computed():
            found, columns = model.predict(data), model.transform(data)
        assert np.array_equal(found.compute(), expected)
        assert columns.compute().shape == (N, 2)
        assert model.score(data, Y) == pytest.approx(np.mean(expected == Y))
    single = SparseClassifier(n_features=2).fit(in_chunks(X.astype(np.float32)), Y)
    assert {part.dtype for part in dask.compute(*single.predict_proba(empty.astype("f4")).to_delayed().ravel())} == {
        np.dtype(np.float32)
    }


def test_steps_of_a_pipeline() -> None:
    model = make_pipeline(SparseClassifier(n_features=4), SparseClassifier(n_features=2)).fit(in_chunks(X), Y)
    with nothing_computed():
        found = model.predict(in_chunks(X))
    assert np.array_equal(found.compute(), SparseClassifier(n_features=2).fit(X, Y).predict(X))


def test_names_are_compared() -> None:
    frame, lazy = as_frame(X), in_chunks(X)
    model = SparseClassifier(n_features=2).fit(frame, as_frame(Y))
    assert model.get_feature_names_out().tolist() == [NAMES[j] for j in model.selected_features_]
    with pytest.raises(InvalidInputError, match="column 0 is 'c7', and was 'c0'"):
        model.predict(frame[NAMES[::-1]])
    with pytest.raises(InvalidInputError, match="column 2 is nothing, and was 'c2'"):
        model.predict(frame[NAMES[:2]])
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.predict(lazy)
    with pytest.warns(UserWarning, match="was fitted without feature names"):
        SparseClassifier(n_features=2).fit(lazy, Y).predict(frame)


# Devices.


@pytest.mark.torch
def test_another_device_is_an_error() -> None:
    data = tensor(X)
    here, there = SparseClassifier(n_features=2).fit(X, Y), SparseClassifier(n_features=2).fit(data, tensor(Y))
    assert there.fitted_on_ == "torch cpu" and not hasattr(here, "fitted_on_")
    for other in (X, in_chunks(X), pd.DataFrame(X), data.to("meta")):
        with pytest.raises(InvalidInputError, match=r"fitted to data on torch cpu, but X is on .* model\.on_host\(\)"):
            there.predict(other)
    with pytest.raises(InvalidInputError, match="fitted to data on the host, but X is on torch cpu"):
        here.predict(data)
    assert np.array_equal(there.on_host().predict(X), here.predict(X))
    assert there.fitted_on_ == "torch cpu"  # on_host gives another model
    assert not hasattr(there.fit(X, Y), "fitted_on_")


@pytest.mark.torch
def test_predictions_refuse_unsuitable_tensors() -> None:
    data = tensor(X)
    model = SparseClassifier(n_features=2).fit(data, Y)
    bad = X.copy()
    bad[5, 3] = np.nan
    for wrong, words in (
        (data[:, :5], r"X has shape \(240, 5\), but SparseClassifier is expecting 8 features"),
        (data[0], r"X has shape \(8,\)"),
        (data.long(), "float32 or float64 on a device, got int64"),
        (tensor(bad), "X contains NaN at row 5, column 3"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            model.predict(wrong)


@pytest.mark.torch
def test_moved_to_a_device() -> None:
    frame = pd.DataFrame(X, columns=NAMES)
    here, there = SparseClassifier(n_features=2).fit(frame, Y), SparseClassifier(n_features=2, device="cpu")
    for data in (frame, X.tolist(), scipy.sparse.csr_array(X), tensor(X)):
        there.fit(data, Y)
        np.testing.assert_allclose(there.coef_, here.coef_, atol=1e-6)
        assert np.array_equal(host(there.predict(data)), here.predict(frame))
    assert there.fit(frame, Y).get_feature_names_out().tolist() == here.get_feature_names_out().tolist()
    with pytest.raises(InvalidInputError, match="device='cpu' is for arrays, not for Array"):
        there.fit(in_chunks(X), Y)
    with pytest.raises(InvalidInputError, match="torch has no device 'nowhere'"):
        SparseClassifier(device="nowhere").fit(X, Y)


# Choosing.


def folds_of(place: Place, folds: int, seed: int) -> np.ndarray:
    """By the rule: of each chunk an order by the seed, and the folds in turn, beginning with the chunk's own number."""
    sizes = {"array": SIZES, "frame": (80, 80, 80), "tensor": (N,), "file": (FILE_ROWS,) * 2}[place.name]
    orders = [np.random.default_rng([seed, i]).permutation(size) + i for i, size in enumerate(sizes)]
    return np.concatenate(orders) % folds


def log_loss(model: Any, data: np.ndarray, y: np.ndarray, weight: np.ndarray) -> float:
    sign = np.where(y == model.classes_[1], 1.0, -1.0)
    return float(np.average(np.logaddexp(0, -sign * model.decision_function(data)), weights=weight))


def test_the_score_is_the_loss_of_what_was_held_out(place: Place) -> None:
    model = SparseClassifierCV(n_features=[1, 3], cv=2, class_weight={"no": 1, "yes": 3}, random_state=5)
    model.fit(place.put(X), place.rows(WORDS), place.rows(WEIGHT))
    fold = folds_of(place, 2, 5)
    for i in range(2):
        out = fold == i
        for row, k in enumerate([1, 3]):
            single = SparseClassifier(n_features=k, class_weight={"no": 1, "yes": 3})
            single.fit(X[~out], WORDS[~out], WEIGHT[~out])
            score = -log_loss(single, X[out], WORDS[out], WEIGHT[out])
            assert model.cv_results_[f"split{i}_test_score"][row] == pytest.approx(score, rel=1e-6)
    scores = [model.cv_results_[f"split{i}_test_score"] for i in range(2)]
    np.testing.assert_allclose(model.cv_results_["mean_test_score"], np.mean(scores, axis=0))
    best = int(np.argmax(model.cv_results_["mean_test_score"]))
    assert model.best_index_ == best and model.best_params_ == {"n_features": [1, 3][best]}
    whole = SparseClassifier(n_features=[1, 3][best], class_weight={"no": 1, "yes": 3}).fit(X, WORDS, WEIGHT)
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=1e-5)


def test_folds_are_those_of_the_seed(place: Place) -> None:
    data = place.put(X)
    scores = [
        SparseRegressorCV(level=[0.5], cv=2, start="direct", random_state=seed).fit(data, place.rows(REAL)).cv_results_
        for seed in (None, 0, 1)
    ]
    first, second, other = ([one[f"split{i}_test_score"].tolist() for i in range(2)] for one in scores)
    assert first == second != other


def test_criteria_are_those_of_data_in_memory(place: Place) -> None:
    for model, y in (
        (SparseClassifierCV(n_features=[0, 2], criterion="bic", class_weight={"no": 3, "yes": 5}), WORDS),
        (SparseClassifierCV(level=[0.5, 1.5], criterion="bic", start="direct"), THREE),
        (SparseRegressorCV(n_features=[1, 2], criterion="aic"), REAL),
    ):
        here = clone(model).fit(X, y, WEIGHT)
        there = clone(model).fit(place.put(X), place.rows(y), place.rows(WEIGHT))
        assert there.best_params_ == here.best_params_
        for name in (model.criterion, "loss", "df", "n_selected"):
            np.testing.assert_allclose(there.cv_results_[name], here.cv_results_[name], rtol=1e-7)


def test_options_of_a_choice_that_remote_data_do_not_have(place: Place, tmp_path: Path) -> None:
    data = place.put(X)
    for options, more, words in (
        ({"scoring": "roc_auc"}, {}, "scoring is for data in memory"),
        ({"cv": KFold(3)}, {}, "cv=KFold.* is for data in memory"),
        ({"cv": 1}, {}, "cv=1 is for data in memory; for remote data cv is a number of folds of at least 2"),
        ({"cv": N + 1}, {}, "cv=241 is more than the 240 samples there are"),
        ({}, {"groups": Y}, "groups is for data in memory"),
        ({"checkpoint": tmp_path / "choice"}, {}, "a checkpoint of a choice is for data in memory"),
        ({"criterion": "bic", "loss": "squared_hinge"}, {}, "criterion='bic' needs a likelihood"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            SparseClassifierCV(n_features=[1, 2], **options).fit(data, place.rows(Y), **more)
    assert not (tmp_path / "choice").exists()


def test_a_class_that_a_fold_takes_away(place: Place) -> None:
    rare, alone = np.where(np.arange(N) == 7, "rare", THREE), np.arange(N) == 7
    with pytest.raises(InvalidInputError, match=r"without fold \d: no sample is left of class 'rare'"):
        SparseClassifierCV(level=[0.5], cv=3, start="direct").fit(place.put(X), place.rows(rare))
    with pytest.raises(InvalidInputError, match=r"without fold \d: .* only one class: \[False\]"):
        SparseClassifierCV(level=[0.5], cv=3, start="direct").fit(place.put(X), place.rows(alone))


def test_chunks_with_fewer_rows_than_folds() -> None:
    data = da.from_array(X[:24], chunks=(1, D))
    model = SparseRegressorCV(level=[0.5], cv=3, start="direct").fit(data, REAL[:24])
    assert np.ptp([model.cv_results_[f"split{i}_test_score"][0] for i in range(3)]) > 0


# What is kept of a fit.


def test_a_model_pickles_and_is_saved(place: Place, tmp_path: Path) -> None:
    model = SparseClassifier(n_features=2).fit(place.put(X), place.rows(WORDS))
    model.save(tmp_path / "one.levelprox")
    loaded, unpickled = levelprox.load(tmp_path / "one.levelprox"), pickle.loads(pickle.dumps(model))
    for other in (loaded, unpickled):
        assert other.coef_.tobytes() == model.coef_.tobytes() and other.certificate_ == model.certificate_
        assert np.array_equal(other.classes_, model.classes_) and not hasattr(other, "data_fingerprint_")
    assert np.array_equal(host(unpickled.predict(place.put(X))), host(model.predict(place.put(X))))
    assert not hasattr(clone(model), "coef_")
    assert "2 features" in model._repr_html_() or "n_features" in model._repr_html_()


def test_a_refused_fit_leaves_the_last_model(place: Place) -> None:
    model = SparseClassifier(n_features=2).fit(pd.DataFrame(X, columns=NAMES), Y)
    before = {name: value for name, value in vars(model).items() if name.endswith("_")}
    for y, budget in ((Y * 0, 2), (Y[:-1], 2), (THREE, 2), (Y, -1)):
        with pytest.raises(InvalidInputError):
            model.set_params(n_features=budget).fit(place.put(X[:, :7]) if place.name != "frame" else as_frame(X), y)
        after = {name: value for name, value in vars(model).items() if name.endswith("_")}
        assert after.keys() == before.keys() and all(after[name] is before[name] for name in before)


def test_a_warm_start_is_of_the_same_classes(place: Place) -> None:
    model = SparseClassifier(level=1.5, warm_start=True).fit(place.put(X), place.rows(Y))
    first = model.n_iter_
    assert model.fit(place.put(X), place.rows(Y)).n_iter_ <= first
    with pytest.warns(ConvergenceWarning, match=r"the last fit had the classes \[0, 1\], this one has \[5, 6\]"):
        model.fit(place.put(X), place.rows(Y + 5))


# Ends.


def test_stopped_by_the_callback_or_the_clock(place: Place) -> None:
    for budget in ({"level": 1.5}, {"n_features": 2}):
        stopped = SparseClassifier(**budget, callback=lambda record: True).fit(place.put(X), place.rows(Y))
        assert stopped.status_ is Status.CALLBACK_STOP
        with pytest.warns(ConvergenceWarning, match="time_limit 0 s"):
            late = SparseClassifier(**budget, time_limit=0).fit(place.put(X), place.rows(Y))
        assert late.status_ is Status.TIME_LIMIT


def test_interrupted_while_models_are_searched(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in a search on a second-order model ends the whole search, which keeps its best."""
    search, by_model = remote_search.SmoothSearch, remote_search.SecondOrderModel
    monkeypatch.setattr(search, "begin", _interrupted_after(search.begin), raising=True)
    regressor: Any = SparseRegressor(n_features=2)
    with pytest.raises(KeyboardInterrupt, match="Interrupted"):
        regressor.fit(place.put(X), place.rows(X[:, 0] + 0.1 * Y))
    assert regressor.status_ is Status.INTERRUPTED

    def interrupted(self: Any, k: int, kept: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(by_model, "best", interrupted)
    model = SparseClassifier(n_features=2)
    with pytest.raises(KeyboardInterrupt, match="Interrupted"):
        model.fit(place.put(X), place.rows(Y))
    assert model.status_ is Status.INTERRUPTED


def _interrupted_after(begin: Callable[..., Any]) -> Callable[..., Any]:
    def begun(self: Any, *given: Any) -> Any:
        first = begin(self, *given)

        def interrupted() -> Iterator[None]:
            raise KeyboardInterrupt
            yield

        self.sets = interrupted
        return first

    return begun


def test_searches_on_models_do_not_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends short there is reported once, at the end of the search."""
    search = remote_search.SmoothSearch.finish
    ended = []

    def short(self: Any, *given: Any) -> Any:
        warnings.warn("of a model", ConvergenceWarning, stacklevel=1)
        ended.append(self)
        return search(self, *given)

    monkeypatch.setattr(remote_search.SmoothSearch, "finish", short)
    assert SparseRegressor(n_features=2).fit(in_chunks(X), X[:, 0] + 0.1 * Y).status_ is Status.SOLVED
    assert ended


def twelve_columns() -> tuple[np.ndarray, np.ndarray]:
    """Data whose fit takes more than one outer step."""
    rng = np.random.default_rng(0)
    values = rng.normal(0.5, 1.5, (N, 12)) * np.linspace(0.5, 3, 12)
    return values, (values[:, 0] - 1.5 * values[:, 3] + 0.5 + rng.logistic(size=N) > 0).astype(np.int64)


def test_a_checkpoint_goes_on_with_the_same_bits(place: Place, tmp_path: Path) -> None:
    X, Y = twelve_columns()
    model = SparseClassifier(level=1.5, start="direct")
    exact = clone(model).fit(place.put(X), place.rows(Y))
    assert exact.n_iter_ > 1  # there is something left after the first step
    seen = []
    first = clone(model).set_params(checkpoint=tmp_path / "a", callback=lambda record: seen.append(record) or True)
    first.fit(place.put(X), place.rows(Y))
    assert first.status_ is Status.CALLBACK_STOP and len(seen) == 1
    again = clone(model).set_params(checkpoint=tmp_path / "a", resume=True).fit(place.put(X), place.rows(Y))
    assert again.coef_.tobytes() == exact.coef_.tobytes() and again.n_iter_ == exact.n_iter_
    with pytest.raises(CheckpointError, match="of another run"):
        clone(model).set_params(checkpoint=tmp_path / "a", resume=True).fit(place.put(X), place.rows(1 - Y))
    with pytest.raises(InvalidInputError, match="a checkpoint of a search for n_features is for data in memory"):
        SparseClassifier(n_features=2, checkpoint=tmp_path / "b").fit(place.put(X), place.rows(Y))
    assert not (tmp_path / "b").exists()


def test_a_cluster_gives_the_bits_of_threads_and_goes_on_with_them(tmp_path: Path) -> None:
    model = SparseClassifier(level=1.5, start="direct")
    exact = clone(model).fit(in_chunks(X), in_chunks(Y))
    stopping = clone(model).set_params(checkpoint=tmp_path / "a", callback=lambda record: True)
    with started(2, processes=False) as client, client.as_current():
        stopping.fit(in_chunks(X), in_chunks(Y))
        with nothing_computed():
            lazy = stopping.predict(in_chunks(X))
        assert np.array_equal(client.compute(lazy).result(), stopping.predict(X))
    with started(1, processes=False) as client, client.as_current():
        again = clone(model).set_params(checkpoint=tmp_path / "a", resume=True).fit(in_chunks(X), in_chunks(Y))
    assert again.coef_.tobytes() == exact.coef_.tobytes() and again.certificate_ == exact.certificate_


# Errors.


def replaced(values: np.ndarray, i: int, by: Any) -> np.ndarray:
    out = values.astype(np.result_type(values.dtype, type(by)) if isinstance(by, float) else object)
    out[i] = by
    return out


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (replaced(Y, 75, np.nan), "y contains NaN"),
        (replaced(Y, 75, np.inf), "y contains inf|Unknown label type|y contains NaN"),
        (REAL, "Unknown label type: continuous, y is .* numbers are for regression"),
        (Y * 0, r"SparseClassifier needs samples of at least 2 classes, .* only one class: \[0\]"),
        (Y[:-1], "240 .*239|X has .* rows, and y has"),
        (np.c_[Y, Y], "y"),
    ],
)
def test_labels_that_cannot_be_used(place: Place, y: np.ndarray, words: str) -> None:
    labels = y if y.ndim == 2 or place.name == "frame" else place.rows(y) if y.size == N else y
    with pytest.raises(InvalidInputError, match=words):
        SparseClassifier(n_features=2).fit(place.put(X), labels)


def test_labels_that_cannot_be_ordered(place: Place) -> None:
    half = np.array(["a", "b"], dtype=object)[Y]
    for by, words in ((None, "Input y contains NaN: None at index"), (3, "y must hold classes of one type, got int")):
        y = half.copy()
        y[75] = by
        with pytest.raises(InvalidInputError, match=words):
            SparseClassifier(n_features=2).fit(place.put(X), y)
    y = np.where(np.arange(N) < N - SIZES[-1], half, Y.astype(object))  # alike in every chunk
    with pytest.raises(InvalidInputError, match="y must hold classes of one type, got int and str"):
        SparseClassifier(n_features=2).fit(place.put(X), y)


def test_rows_that_cannot_be_used(place: Place) -> None:
    data = place.put(X)
    for weight, words in (
        (WEIGHT[:-1], "239"),
        (-WEIGHT - 1, "nonnegative"),
        (replaced(WEIGHT, 9, np.nan), "NaN|nan"),
        (0 * WEIGHT, "no sample has a|must not be all zero"),
        (2.0, "sample_weight must have one entry for each sample, got 2.0"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            SparseClassifier(n_features=2).fit(data, Y, weight)
    poisson = SparseRegressor("poisson", n_features=1)
    with pytest.raises(InvalidInputError, match="exposure must be positive, got -1 at index 0"):
        poisson.fit(data, COUNTS, exposure=place.rows(np.full(N, -1.0)))
    with pytest.raises(InvalidInputError, match="exposure is for poisson and gamma"):
        SparseRegressor(n_features=1).fit(data, REAL, exposure=EXPOSURE)
    with pytest.raises(InvalidInputError, match="offset"):
        poisson.fit(data, COUNTS, offset=replaced(Z, 3, np.nan))
    with pytest.raises(InvalidInputError, match=r"y must .*, got -1"):
        poisson.fit(data, COUNTS - 1)
    with pytest.raises(InvalidInputError, match="predict takes X alone here"):
        poisson.fit(data, COUNTS).predict(data, exposure=EXPOSURE)
    with pytest.raises(InvalidInputError, match="has kinks, and is for data in memory only"):
        SparseClassifier("hinge", n_features=2).fit(data, Y)
    with pytest.raises(InvalidInputError, match="of more than two classes are found for data in memory only"):
        SparseClassifier(n_features=2).fit(data, place.rows(THREE))


def test_x_that_cannot_be_used(place: Place) -> None:
    bad = X.copy()
    bad[100, 4] = np.nan
    with pytest.raises(levelprox.exceptions.LevelproxError, match=r"X contains NaN at row \d+, column (4|'c4')"):
        SparseClassifier(n_features=2).fit(place.put(bad), Y)
    if place.name != "file":
        with pytest.raises(InvalidInputError, match="y must be given, got None"):
            SparseClassifier(n_features=2).fit(place.put(X), None)
    model = SparseClassifier(n_features=2).fit(X[:, :5], Y)
    if place.name != "tensor":
        with pytest.raises(InvalidInputError, match="has 8 features, but SparseClassifier is expecting 5 features"):
            model.predict(place.put(X))


@pytest.mark.parametrize("there", ["dask", pytest.param("device", marks=pytest.mark.torch)])
def test_nothing_is_computed_or_moved_implicitly(place: Place, there: str) -> None:
    data, model = place.put(X), SparseClassifier(n_features=2)
    for y, name in ((in_chunks(Y), "Dask's") if there == "dask" else (tensor(Y), "on a device"),):
        if place.rows(Y).__class__ is y.__class__ or (place.name == "frame" and name == "Dask's"):
            continue
        with nothing_computed(), pytest.raises(InvalidInputError, match=f"y is {name}, and X is not"):
            model.fit(data, y)
        with nothing_computed(), pytest.raises(InvalidInputError, match="y must be in memory here"):
            model.fit(X, y)
        with nothing_computed(), pytest.raises(InvalidInputError, match="sample_weight must be in memory here"):
            model.fit(X, Y, y)
    with nothing_computed(), pytest.raises(InvalidInputError, match="X must be in memory here"):
        model.partial_fit(data, Y, classes=[0, 1])
    model.fit(X, Y)
    with nothing_computed(), pytest.raises(InvalidInputError, match="X must be in memory here"):
        model.inverse_transform(data)


def test_collections_that_are_no_table() -> None:
    model = SparseClassifier(n_features=2).fit(X, Y)
    for wrong in (dask.delayed(X), in_chunks(X)[:, 0], as_frame(Y)):
        with pytest.raises(InvalidInputError, match="X must be a dask array or dataframe with two dimensions"):
            model.predict(wrong)
        with pytest.raises(InvalidInputError, match="X must be a dask array or dataframe with two dimensions"):
            model.fit(wrong, Y)
    with pytest.raises(InvalidInputError, match="X must hold real numbers, got objects such as 'u'"):
        SparseClassifier(n_features=2).fit(as_frame(X).assign(c0="u"), as_frame(Y))


# Rounds.


def test_values_along_a_step_are_those_at_its_points() -> None:
    psi = DaskSource.of(in_chunks(X), in_chunks(WORDS), in_chunks(WEIGHT)).model(
        Form(Logistic(), True, classes=np.array(["no", "yes"]))
    )
    part = psi.restrict(np.array([0, 3, D]))
    start, step = np.array([0.1, -0.2, 0.3]), np.array([0.01, -0.02, 0.05])
    before = part.margins(start)
    after, _, _ = part.evaluated(before, step, True)
    rounds, along = part.traffic.rounds, part.along(before, after)
    found = [along(float(t)) for t in 1 + AHEAD]
    assert part.traffic.rounds == rounds
    sign, weight = np.where(Y == 1, 1.0, -1.0), WEIGHT / WEIGHT.sum()
    design = np.c_[X[:, [0, 3]], np.ones(N)]
    expected = [weight @ np.logaddexp(0, -sign * (design @ (start + t * step))) for t in 1 + AHEAD]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_choice_computes_statistics_of_all_data_once(monkeypatch: pytest.MonkeyPatch) -> None:
    surveys = []
    statistics = DaskSource.statistics

    def counted(self: Any, *args: Any) -> Any:
        surveys.append(self)
        return statistics(self, *args)

    monkeypatch.setattr(DaskSource, "statistics", counted)
    SparseRegressorCV(level=[0.5], cv=2, start="direct").fit(in_chunks(X), REAL)
    assert len(surveys) == 3  # of all data, and of what each fold leaves

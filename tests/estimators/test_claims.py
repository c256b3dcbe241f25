"""Claims of a model are recomputed from the data, and false ones are detected."""

from __future__ import annotations

import copy
import json
import math
import re
from dataclasses import fields, replace

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

import levelprox
from levelprox import SparseClassifier, SparseClassifierCV, SparseRegressor, Status, certify_model
from levelprox.estimators._soundness import check_soundness
from levelprox.estimators.persistence import packed, unpacked
from levelprox.exceptions import InvalidInputError
from tests.support.estimator_cases import TASKS, estimator, fitted, targets
from tests.support.estimator_cases import psi as psi_by_hand
from tests.support.long_runs import LONG

SLOW = () if LONG else ("hinge ovr", "sigmoid ovr", "sigmoid", "hinge")


PROVED = ("squared", "logistic", "absolute")
NOT_CONVEX = ("cauchy", "sigmoid", "sigmoid ovr")  # losses
#: Figures that a smaller number makes a stronger claim of.
NO_MORE_THAN = ("possible_gain", "kkt", "stationarity", "stationarity_squared")


def data(task: str = "logistic", n: int = 80, d: int = 7, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.logspace(-2, 2, d) + 3
    return X, targets(task, (X - 3) / np.logspace(-2, 2, d), rng)


def failed(claims) -> list[str]:
    return [claim.name for claim in claims.claims if claim.holds is False]


def from_a_file(model):
    """The model as it is read back; files with a right checksum can be written by any program."""
    return unpacked(packed(model), "file").model


@pytest.mark.parametrize("task", [task for task in TASKS if task not in SLOW])
@pytest.mark.parametrize("budget", [{"n_features": 2}, {"level": 1.5}], ids=["features", "level"])
def test_claims_of_every_fit_hold(task, budget):
    X, y = data(task)
    if "level" in budget and task in ("absolute", "quantile", "hinge"):
        budget = {**budget, "tol": 1e-4}
    model = from_a_file(fitted(estimator(task, **budget), X, y))
    claims = certify_model(model, X, y)
    assert claims.hold and claims.same_data, str(claims)
    assert np.isclose(claims.claims[0].found, psi_by_hand(model, X, y), rtol=1e-9)


MODELS = [
    SparseClassifier(n_features=2, class_weight="balanced"),
    SparseClassifier(level=2.5, constraint="l1", fit_intercept=False, class_weight={-1: 2.0, 1: 1.0}),
    SparseClassifier(n_features=1, feature_weight=[0, 1, 1, 1, 1, 1, 1], positive=True),
    SparseClassifier(level=1.2, feature_weight=[0, 1, 2, 1, 1, 1, 3], positive=True, constraint="log"),
    SparseClassifierCV(n_features=[1, 2], cv=2),
    SparseRegressor("poisson", n_features=2),
    SparseRegressor(level=0.6, constraint="exp", standardize=False, tol=1e-5),
    SparseRegressor(n_features=0),
    SparseRegressor(n_features=7),
]
STORAGES = ("dense", "float32", "sparse")


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (model, kind)
        for i, model in enumerate(MODELS)
        for j, kind in enumerate(STORAGES)
        if LONG or (i + i // 3) % 3 == j
    ],
    ids=lambda one: str(one)[:60],
)
def test_claims_of_every_kind_of_model_hold(model, kind):
    X, y = data()
    y = np.maximum(y, 0) if isinstance(model, SparseRegressor) else y
    X = {"dense": X, "float32": X.astype(np.float32), "sparse": scipy.sparse.csc_array(X)}[kind]
    weight = np.linspace(0, 2, 80)
    more = {"offset": np.linspace(0, 1, 80)} if model.loss == "poisson" else {}
    fit = from_a_file(fitted(clone(model), X, y, sample_weight=weight, **more))
    claims = certify_model(fit, X, y, weight, **more)
    assert claims.hold and claims.same_data, str(claims)
    changed = certify_model(fit, X, y, weight[::-1], **more)
    assert not changed.same_data and changed.differences == ("sample_weight",)


def times(part: str, factor: float):
    """One number changed: of an attribute, its first that is not zero; of the certificate, a figure."""

    def change(model) -> None:
        if hasattr(model, part):
            array = getattr(model, part).reshape(-1)
            array[np.flatnonzero(array)[0]] *= factor
        else:
            figure = factor * getattr(model.certificate_, part)
            model.certificate_ = replace(model.certificate_, **{part: figure})

    return change


CHANGES = {
    "a coefficient": times("coef_", 1.001),
    "a coefficient by little": times("coef_", 1 + 1e-6),
    "the intercept": times("intercept_", 1.0001),
    "a scale": times("scale_", 0.5),
    "psi": times("psi", 0.999999),
    "n_nonzero": lambda model: setattr(model, "certificate_", replace(model.certificate_, n_nonzero=1)),
    "the multiplier": times("multiplier", 1.01),
    "the classes": lambda model: setattr(model, "classes_", model.classes_[::-1].copy()),
}
CHANGES |= {
    "psi without end": times("psi", math.inf),
    "a multiplier without end": times("multiplier", math.inf),
    "multiplier_": lambda model: setattr(model, "multiplier_", 123.0),
}
OF_A_LEVEL = {
    "a scale without end": times("scale", math.inf),
    "the residual": times("kkt", 1e9),
    "a smaller residual": times("kkt", 1e-3),
    "the stationarity": times("stationarity", 1e9),
    "a smaller stationarity": times("stationarity", 1e-3),
    "a smaller stationarity in all": times("stationarity_squared", 1e-6),
    "a larger stationarity in all": times("stationarity_squared", 1e3),
    "the complementarity": lambda model: setattr(
        model, "certificate_", replace(model.certificate_, complementarity=0.5)
    ),
    "a neighbour": lambda model: setattr(
        model, "certificate_", replace(model.certificate_, near_epsilon=0.5, near_delta=0.5)
    ),
    "g": times("g", 0.9),
    "the gradient": times("scale", 1.01),
    "the constraint": lambda model: setattr(model, "constraint_", type(model.constraint_).from_threshold(0.3)),
}
OF_FEATURES = {
    "the addition": lambda model: setattr(model, "certificate_", replace(model.certificate_, addition=6)),
    "the swaps": lambda model: setattr(
        model, "certificate_", replace(model.certificate_, swaps=levelprox.Swaps(99, 99))
    ),
}


@pytest.mark.parametrize("budget", [{"n_features": 2}, {"level": 1.5}], ids=["features", "level"])
@pytest.mark.parametrize("change", [*CHANGES, *OF_A_LEVEL, *OF_FEATURES])
def test_every_changed_figure_is_detected(change, budget):
    X, y = data()
    tol = {"tol": 1e-4} if "level" in budget else {}  # a residual that is not rounding alone
    model = from_a_file(SparseClassifier(**budget, **tol).fit(X, y))
    other = OF_A_LEVEL if "level" in budget else OF_FEATURES
    if change not in CHANGES and change not in other:
        pytest.skip("of the other kind of budget")
    assert certify_model(model, X, y).hold
    {**CHANGES, **other}[change](model)
    if change == "the classes":
        with pytest.raises(InvalidInputError, match="y has the classes"):
            certify_model(from_a_file(model), X, y)
        return
    claims = certify_model(from_a_file(model), X, y)
    assert not claims.hold and claims.same_data
    assert "DOES NOT HOLD" in str(claims) and failed(claims)


def refitted_psi(model, X, y, features):
    """ψ of the model's loss minimised over some features, by a fit in which all of them are kept."""
    weight = np.ones(X.shape[1])
    weight[features] = 0.0
    return fitted(clone(model).set_params(n_features=0, feature_weight=weight), X, y).certificate_.psi


def with_gain(model, gain: float, feature: int | None):
    """The model with another claim of what one more feature gains."""
    lie = from_a_file(model)
    lie.certificate_, lie.multiplier_ = replace(model.certificate_, multiplier=gain, addition=feature), gain
    check_soundness(lie, "file")
    return from_a_file(lie)


@pytest.mark.parametrize(
    ("task", "prove"),
    [
        (task, prove)
        for task in TASKS
        if task not in SLOW
        for prove in (False, True)
        if LONG or prove == (task in PROVED)
    ],
)
def test_a_gain_of_one_more_feature_that_is_not_the_largest_is_detected(task, prove):
    """One more feature is said to gain nothing, or the gain of another than the best is given, truly or not."""
    X, y = data(task, n=60, d=4, seed=3)
    model = fitted(estimator(task, n_features=1), X, y)
    inside = np.flatnonzero(np.any(np.atleast_2d(model.coef_), axis=0))
    others = [j for j in range(4) if j not in inside]
    gains = {j: model.certificate_.psi - refitted_psi(model, X, y, [*inside, j]) for j in others}
    best = max(gains, key=gains.__getitem__)
    weak = min(gains, key=gains.__getitem__)
    assert gains[best] - gains[weak] > 1e-4 * model.certificate_.psi
    truth = with_gain(model, max(gains[best], 0.0), best)
    assert certify_model(truth, X, y, prove=prove).hold, str(certify_model(truth, X, y, prove=prove))
    lies = [(0.0, None), (max(gains[weak], 0.0), weak), (gains[best], weak), (0.9 * gains[best], best)]
    for gain, feature in [*lies, (1.1 * gains[best], best)] if LONG or task in ("squared", "softmax") else lies[:3]:
        claims = certify_model(with_gain(model, gain, feature), X, y, prove=prove)
        if task in NOT_CONVEX:  # refits are local, and may end at another minimum: the claim is not confirmed
            assert {"one more would gain", "best addition"} & {*claims.not_examined, *failed(claims)}, str(claims)
            continue
        assert not claims.hold and {"one more would gain", "best addition"} >= set(failed(claims)), str(claims)


def test_features_that_were_not_refitted_are_counted_as_such(monkeypatch):
    """Where refits of all further features are much work, the claim is not decided, unless those refitted refute it."""
    X, y = data("squared")
    model = from_a_file(SparseRegressor(n_features=2).fit(X, y))
    monkeypatch.setattr("levelprox.estimators._claims._FEWEST_REFITS", 2)
    monkeypatch.setattr("levelprox.estimators._subset_claims._REFIT_WORK", 0)
    claims = certify_model(model, X, y)
    assert claims.hold and "best addition" in claims.not_examined and "2 of 5 refitted" in str(claims)
    assert certify_model(model, X, y, prove=True).not_examined == ("message_, history_, n_iter_",)
    assert not certify_model(with_gain(model, 0.0, None), X, y).hold


def forged_with(model, worse, places):
    """The model with the coefficients of a fit to some of the columns, and figures that are right for them."""
    forged = from_a_file(model)
    forged.coef_ = np.zeros_like(model.coef_)
    forged.coef_[places[worse.selected_features_]] = worse.coef_[worse.selected_features_]
    forged.intercept_ = worse.intercept_
    figures = {"psi": worse.certificate_.psi, "stationarity": worse.certificate_.stationarity}
    forged.certificate_ = replace(model.certificate_, **figures)
    return forged


def test_a_set_that_a_swap_improves_is_detected_on_request():
    X, y = data("squared")
    model = SparseRegressor(n_features=2).fit(X, y)
    assert certify_model(model, X, y, prove=True).hold
    places = np.array([0, 3, 4, 5, 6])  # the best are not there
    forged = forged_with(model, SparseRegressor(n_features=2).fit(X[:, places], y), places)
    outside = np.flatnonzero(forged.coef_ == 0)
    kept = np.flatnonzero(forged.coef_)
    gains = [forged.certificate_.psi - refitted_psi(model, X, y, [*kept, j]) for j in outside]
    forged = with_gain(forged, max(gains), int(outside[np.argmax(gains)]))
    claims = certify_model(forged, X, y)
    assert claims.hold and "swaps" in claims.not_examined
    claims = certify_model(forged, X, y, prove=True)
    assert failed(claims) == ["swaps"] and "swaps lower the loss" in str(claims)


def far_means(seed: int):
    """A kept column whose mean is millions of deviations, another loss and other options for each seed."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.choice([10, 20, 60])), int(rng.integers(2, 5))
    Z = rng.standard_normal((n, d))
    X = Z.copy()
    X[:, 0] = 10.0 ** rng.integers(-3, 7) * (Z[:, 0] + 10.0 ** rng.uniform(5, 8.2))
    signal, noise = Z @ rng.standard_normal(d), 10.0 ** -rng.uniform(0, 5)
    task, kind = [("squared", SparseRegressor), ("logistic", SparseClassifier)][seed % 2]
    y = 10.0 ** rng.uniform(-3, 3) * (signal + noise * rng.standard_normal(n) + 1e6 * (seed % 3 == 0))
    y = np.where(signal + rng.logistic(size=n) > 0, 1, -1) if task == "logistic" else y
    y[:2] = (1, -1) if task == "logistic" else y[:2]
    options = {"standardize": seed % 4 < 2, "fit_intercept": seed % 5 > 0, "keep": [0], "ridge": 0.0}
    return X, y, kind(task, n_features=int(rng.integers(1, 3)), **options)


@pytest.mark.parametrize("first", [0, 4, 8, 12, 16, 392])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_columns_with_means_of_many_deviations_refute_nothing(first):
    for seed in range(first, first + 4):
        X, y, model = far_means(seed)
        claims = certify_model(model.fit(X, y), X, y, prove=True)
        assert claims.hold, f"{seed}: {model}\n{claims}"


@pytest.mark.parametrize("size", [0.0, 1e4, 1e8])
def test_a_false_loss_is_detected_however_far_targets_are_from_zero(size):
    rng = np.random.default_rng(4)
    X = np.eye(3)[rng.integers(0, 3, 40)]
    y = size + X @ [1.0, -2.0, 3.0] + rng.standard_normal(40)
    model = SparseRegressor(n_features=3, fit_intercept=False).fit(X, y)
    assert certify_model(model, X, y).hold
    honest = model.certificate_
    for factor in 1 - 1e-6, 1 + 1e-6:
        model.certificate_ = replace(honest, psi=factor * honest.psi)
        assert "loss" in failed(certify_model(model, X, y))


def test_fewer_features_than_allowed_are_no_swap():
    """One feature of at most two: that a second one would help does not refute what is claimed of swaps."""
    X, y = data("squared")
    model = SparseRegressor(n_features=1).fit(X, y)
    model.level_ = 2.0
    model.certificate_ = replace(model.certificate_, k=2)
    claims = certify_model(from_a_file(model), X, y, prove=True)
    assert claims.hold, str(claims)


@pytest.mark.parametrize("budget", [{"n_features": 2}, {"level": 1.5}], ids=["features", "level"])
def test_every_figure_of_a_certificate_is_compared_or_listed(budget):
    """Any figure changed by far is found out, or its claim is among those that were not examined."""
    X, y = data()
    model = from_a_file(SparseClassifier(**budget, **({"tol": 1e-4} if "level" in budget else {})).fit(X, y))
    honest = certify_model(model, X, y)
    assert honest.hold, str(honest)
    for field in fields(model.certificate_):
        value = getattr(model.certificate_, field.name)
        if isinstance(value, bool):
            other = not value
        elif isinstance(value, int):
            other = value + 1
        elif isinstance(value, float):
            smaller = "level" in budget and field.name in NO_MORE_THAN
            other = 1e-3 * value if smaller else 1e3 * value + 1.0
        elif isinstance(value, str):
            other = value + "?"
        else:
            continue  # None, and swaps, which other tests cover
        lie = copy.deepcopy(model)
        lie.certificate_ = replace(model.certificate_, **{field.name: other})
        claims = certify_model(lie, X, y)
        assert not claims.hold or field.name in claims.not_examined, f"{field.name}: {value} -> {other}\n{claims}"


def test_figures_of_the_run_are_listed_as_not_examined():
    X, y = data()
    chosen = fitted(SparseClassifierCV(n_features=[1, 2], cv=2), X, y)
    names = certify_model(chosen, X, y).not_examined
    assert {"message_, history_, n_iter_", "cv_results_, best_score_", "swaps"} <= set(names)
    assert certify_model(chosen, X, y).as_dict()["not_examined"] == list(names)


def test_a_gain_that_was_not_computed_is_not_claimed():
    """Of a search that was cut short; a forged one that claims half of it does not hold."""
    X, y = data()
    model = from_a_file(SparseClassifier(n_features=2).fit(X, y))
    model.certificate_ = replace(model.certificate_, multiplier=math.nan, addition=None)
    assert failed(certify_model(model, X, y)) == ["one more would gain"]  # multiplier_ does claim it
    model.multiplier_ = math.nan
    claims = certify_model(from_a_file(model), X, y)
    check_soundness(model, "file")
    told = {one["name"]: one for one in json.loads(json.dumps(claims.as_dict(), allow_nan=False))["claims"]}
    assert claims.hold and told["one more would gain"]["claimed"] is None
    assert re.search(r"one more would gain +— +not claimed\n", str(claims))
    model.certificate_ = replace(model.certificate_, swaps=levelprox.Swaps(0, 0))
    assert failed(certify_model(model, X, y)) == ["swaps"]
    model.status_ = levelprox.Status.TIME_LIMIT
    assert certify_model(model, X, y).hold


def test_other_data_are_other_data():
    X, y = data()
    model = SparseClassifier(n_features=2).fit(X, y)
    other, labels = data(seed=1)
    claims = certify_model(model, other, labels)
    assert not claims.hold and not claims.same_data
    assert str(claims).startswith("Other data than those of the fit: they differ in entries of X, y.")
    del model.data_fingerprint_
    assert certify_model(model, X, y).same_data is None
    assert "no fingerprint" in str(certify_model(model, X, y))


def test_claims_are_written_as_json_and_as_a_table():
    X, y = data()
    for model in (SparseClassifier(n_features=2), SparseClassifier(level=1.5)):
        claims = certify_model(model.fit(X, y), X, y)
        told = json.loads(json.dumps(claims.as_dict()))
        assert told["hold"] is True and told["same_data"] is True and told["differences"] == []
        assert {"name", "claimed", "found", "holds"} == told["claims"][0].keys()
        assert len({len(line.split("  ")[0]) > 0 for line in str(claims).splitlines()[2:]}) == 1


def test_data_that_do_not_fit_the_model_are_refused():
    X, y = data()
    model = SparseClassifier(n_features=2).fit(X, y)
    with pytest.raises(ValueError, match="7 features"):
        certify_model(model, X[:, :5], y)
    with pytest.raises(InvalidInputError, match="y has the classes"):
        certify_model(model, X, np.where(y > 0, "a", "b"))
    with pytest.raises(InvalidInputError, match="claims nothing"):
        certify_model(model.partial_fit(X, y), X, y)
    with pytest.raises(ValueError, match="not fitted"):
        certify_model(SparseClassifier(), X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("budget", [{"n_features": 3}, {"level": 2.0}], ids=["features", "level"])
@pytest.mark.parametrize("loss", ["squared", "huber", "gamma", "logistic", "sigmoid"])
def test_a_model_that_had_no_time_for_its_null_fit_is_confirmed(loss, budget):
    """Residuals are measured by the null fit of the run, and that was not finished."""
    rng = np.random.default_rng(4)
    X = 10.0 ** rng.integers(-3, 4, 6) * rng.standard_normal((60, 6)) + 50
    signal = (X - X.mean(axis=0)) @ (rng.standard_normal(6) / X.std(axis=0))
    classes = loss in ("logistic", "sigmoid")
    y = np.where(signal > 0.5, 1, -1) if classes else np.exp(0.3 * signal)
    kept = np.array([0.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    kind = SparseClassifier if classes else SparseRegressor
    model = kind(loss, time_limit=0.0, feature_weight=kept, ridge=0.0, **budget).fit(X, y)
    assert model.status_ is Status.TIME_LIMIT
    claims = certify_model(model, X, y)
    assert claims.hold, claims
    told = model.certificate_
    if told.examined and told.stationarity > 1e-3:
        model.certificate_ = replace(told, stationarity=0.5 * told.stationarity)
        assert not certify_model(model, X, y).hold

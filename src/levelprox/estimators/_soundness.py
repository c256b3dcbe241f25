"""Checks that the parts of a fitted model agree with one another, for models that are read from files.

Types and shapes, finite coefficients, the budget: g(scale_ · coef_) ≤ level_, or at most level_ features; and that the
certificate's figures are numbers and say the same as multiplier_ and status_. What depends on the data is checked by
`certify_model`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from levelprox.certificate import Certificate
from levelprox.constraints import Constraint
from levelprox.constraints.costs import Costs
from levelprox.driver.run_identity import Fingerprint
from levelprox.estimators._callbacks import OF_A_CHOICE
from levelprox.estimators._features import FeatureNames
from levelprox.estimators._parameters import Budget
from levelprox.exceptions import FileFormatError, InvalidInputError
from levelprox.io.preprocessing import Preprocessing
from levelprox.projection import group_norms
from levelprox.result import CUT_SHORT, Record, Status
from levelprox.subset.result import Additions, SubsetCertificate, SubsetRecord, Swaps, with_name

#: All that a fit may set, in the order of a file, and what it must be.
FITTED: dict[str, Callable[[Any], bool]] = {
    "n_features_in_": lambda n: _is_count(n) and n > 0,
    "feature_names_in_": lambda names: _is_vector(names, "O") and all(isinstance(name, str) for name in names),
    "classes_": lambda classes: _is_vector(classes, "biufUO") and classes.size > 1 and _are_labels(classes),
    "coef_": lambda coef: _is_numbers(coef) and coef.ndim in (1, 2),
    "intercept_": lambda one: isinstance(one, np.ndarray | np.floating) and _is_numbers(np.asarray(one)),
    "scale_": lambda scale: _is_vector(scale, "f") and scale.dtype == np.float64 and bool(np.all(scale > 0)),
    "level_": lambda level: isinstance(level, float) and 0 <= level < np.inf,
    "ridge_": lambda ridge: isinstance(ridge, float) and 0 <= ridge < np.inf,
    "budget_": lambda budget: isinstance(budget, float) and 0 <= budget < np.inf,
    "feature_cost_": lambda cost: _is_vector(cost, "f") and cost.dtype == np.float64 and bool(np.all(cost >= 0)),
    "constraint_": lambda constraint: isinstance(constraint, Constraint),
    "certificate_": lambda one: isinstance(one, Certificate | SubsetCertificate) and _is_typed(one),
    "multiplier_": lambda y: isinstance(y, float),
    "status_": lambda status: isinstance(status, Status),
    "message_": lambda message: isinstance(message, str),
    "n_iter_": lambda n: _is_count(n),
    "history_": lambda records: (
        isinstance(records, tuple) and all(isinstance(one, Record | SubsetRecord) and _is_typed(one) for one in records)
    ),
    "n_samples_seen_": lambda n: isinstance(n, int | float) and n >= 0,
    "cv_results_": lambda results: isinstance(results, dict) and _is_table(results),
    "best_index_": lambda i: _is_count(i),
    "best_params_": lambda best: isinstance(best, dict) and len(best) in (1, 2),
    "best_score_": lambda score: isinstance(score, float),
    "preprocessing_": lambda one: isinstance(one, Preprocessing),
    "data_fingerprint_": lambda one: isinstance(one, Fingerprint) and _is_typed(one),
}

_ALWAYS = ("n_features_in_", "coef_", "intercept_", "scale_", "level_", "n_iter_")
_OF_A_FIT = ("certificate_", "multiplier_", "status_", "message_", "history_")


def check_soundness(model: Any, name: str) -> None:
    """Raise a FileFormatError that says what of a model cannot be; `name` is what its file is called."""
    try:
        _check_parts(model)
        _check_shapes(model)
        _check_budget(model)
        if hasattr(model, "certificate_"):
            _check_certificate(model)
        if hasattr(model, "cv_results_"):
            _check_choice(model)
        _ = model.loss_, is_classifier(model) and model.multi_class_  # raise errors of parameters
    except InvalidInputError as error:
        raise FileFormatError(f"{name}: {error}") from error
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        raise FileFormatError(f"{name}: the parts of the model do not fit together: {error}") from error


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InvalidInputError(message)


def _check_parts(model: Any) -> None:
    wanted = [*_ALWAYS, *(["classes_"] if is_classifier(model) else [])]
    wanted += _OF_A_FIT if not hasattr(model, "n_samples_seen_") else ()
    wanted += OF_A_CHOICE if "cv" in model.get_params(deep=False) else ()
    for part in wanted:
        _require(hasattr(model, part), f"a fitted {type(model).__name__} has {part}, and this one has not")
    for part, is_right in FITTED.items():
        if part in vars(model) and not is_right(vars(model)[part]):
            raise InvalidInputError(f"{part} cannot be {vars(model)[part]!r}"[:200])


def _check_shapes(model: Any) -> None:
    d = model.n_features_in_
    rows = () if not is_classifier(model) else (1,) if model.classes_.size == 2 else (model.classes_.size,)
    wanted = {"coef_": (*rows, d), "intercept_": rows}
    wanted |= {part: (d,) for part in ("scale_", "feature_names_in_", "feature_cost_") if hasattr(model, part)}
    for part, shape in wanted.items():
        found = np.shape(getattr(model, part))
        _require(found == shape, f"{part} has the shape {found}, {shape} is expected")
    if hasattr(model, "preprocessing_"):
        made, known = list(model.preprocessing_.features), getattr(model, "feature_names_in_", np.empty(0))
        _require(made == known.tolist(), "preprocessing_ makes other features than feature_names_in_")
    coef, intercept = model.coef_.dtype, np.asarray(model.intercept_).dtype
    _require(coef == intercept, f"coef_ is of {coef}, intercept_ of {intercept}")
    if is_classifier(model):
        _require(len(set(model.classes_.tolist())) == model.classes_.size, "classes_ has a class twice")


def _check_budget(model: Any) -> None:
    """Check signs, the budget and what the certificate says of it, exactly."""
    weight = model._feature_weight(budget_of(model), model.n_features_in_)
    sizes = sizes_of(model)
    least = np.where(model._positive(model.n_features_in_), np.min(np.atleast_2d(model.coef_), axis=0), 0.0)
    name = FeatureNames.of(model, model.n_features_in_).called(int(np.argmin(least)))
    _require(not np.any(least < 0), f"positive={model.positive!r}, and the coefficient of {name} is negative")
    of_level = hasattr(model, "constraint_")
    if hasattr(model, "certificate_"):
        certificate = model.certificate_
        of_a_set = isinstance(certificate, SubsetCertificate)
        _require(of_a_set != of_level, f"a {type(certificate).__name__} is of another kind of budget than level_")
        claimed = certificate.k if of_a_set else certificate.level
        _require(claimed == model.level_, f"level_ = {model.level_!r}, and certificate_ has {claimed!r}")
    counted = sizes if weight is None else np.where(weight > 0, sizes, 0.0)
    _check_costs(model, counted)
    if of_level:
        g = min(model.constraint_.total(sizes, weight), model.constraint_.total_above(sizes, weight))
        _require(g <= model.level_, f"g(scale_ · coef_) = {g!r} is above level_ = {model.level_!r}")
    else:
        count = int(np.count_nonzero(counted))
        words = f"{count} features are not zero, and at most level_ = {model.level_:g} may be"
        _require(count <= model.level_, words)


def _check_costs(model: Any, sizes: NDArray[np.float64]) -> None:
    """Check that the features of a model cost what it says, and no more than its budget."""
    claimed = getattr(model, "certificate_", None)
    if not hasattr(model, "budget_"):
        has_costs = hasattr(model, "feature_cost_") or getattr(claimed, "budget", None) is not None
        _require(not has_costs, "features have costs, and there is no budget_")
        return
    costs, chosen = Costs(model.feature_cost_, model.budget_), np.flatnonzero(sizes).tolist()
    spent = costs.spent(chosen)
    _require(costs.allows(chosen), f"the features cost {spent!r}, more than budget_ = {model.budget_!r}")
    same = isinstance(claimed, SubsetCertificate) and (claimed.spent, claimed.budget) == (spent, model.budget_)
    _require(same, "certificate_ has other costs than those of the features, or another budget")


#: Figures that are numbers in every certificate; dual_bound and stationarity_squared may be beyond float64's range.
_NUMBERS = ("kkt", "psi", "g", "slack", "infeasibility", "multiplier", "stationarity", "complementarity", "scale")
_NUMBERS_OF_A_SET = ("psi", "stationarity")
_UNKNOWN = ("kkt", "stationarity", "scale")  # where a limit left no time for a gradient
_ROUNDING = 1e-9
_OF_FLOAT32 = 1e-2  # of a multiplier: certificate_ is of the rounded coefficients, multiplier_ of those before


def _check_certificate(model: Any) -> None:
    """Check that figures are numbers, and agree with one another, with multiplier_ and with status_."""
    claimed = model.certificate_
    of_a_set = isinstance(claimed, SubsetCertificate)
    unknown = _UNKNOWN if not claimed.examined and model.status_ in CUT_SHORT else ()
    for name in _NUMBERS_OF_A_SET if of_a_set else _NUMBERS:
        value = getattr(claimed, name)
        _require(np.isfinite(value) or name in unknown, f"certificate_ has {name} = {value!r}, which is not a number")
    if of_a_set:
        _check_search(model, claimed)
    else:
        _check_residuals(model, claimed)
    apart = 0.0
    if model.coef_.dtype != np.float64 and not of_a_set:
        apart = _OF_FLOAT32 * max(float(claimed.multiplier), float(claimed.scale) / float(model.constraint_.lam))
    not_claimed = of_a_set and np.isnan(claimed.multiplier) and np.isnan(model.multiplier_)  # of a search cut short
    same = not_claimed or abs(model.multiplier_ - claimed.multiplier) <= apart
    _require(same, f"multiplier_ = {model.multiplier_!r}, and certificate_ has {claimed.multiplier!r}")


def _check_search(model: Any, claimed: SubsetCertificate) -> None:
    gain, feature, called = claimed.multiplier, claimed.addition, claimed.addition_name
    is_gain = np.isnan(gain) or 0 <= gain < np.inf
    _require(is_gain, f"certificate_ has multiplier = {gain!r}, which is not a gain")
    is_known = feature is None or not np.isnan(gain)
    _require(is_known, f"certificate_ says of feature {feature} that it gains most, but not how much")
    named = with_name(claimed, getattr(model, "feature_names_in_", None)).addition_name
    _require(called in (None, named), f"certificate_ calls feature {feature} {called!r}, not {named!r}")
    for what, tried in (("swaps", claimed.swaps), ("additions", getattr(claimed, "additions", None))):
        if tried is not None:
            words = f"{tried.examined} of {tried.total} {what} cannot be examined"
            _require(0 <= tried.examined <= tried.total, words)


def _check_residuals(model: Any, claimed: Certificate) -> None:
    exact = model.coef_.dtype == np.float64  # rounded ones may differ by more, which depends on the data
    within = not exact or model.status_ is not Status.SOLVED or claimed.kkt <= model.tol
    _require(within, f"status_ is solved, and the KKT residual {claimed.kkt!r} above tol = {model.tol!r}")
    most, words = claimed.kkt * claimed.scale * (1 + _ROUNDING), "which its kkt does not allow"
    within = not claimed.examined or 0 <= claimed.stationarity <= most
    _require(within, f"certificate_ has stationarity = {claimed.stationarity!r}, {words}")
    product = claimed.multiplier * abs(claimed.slack)
    same = claimed.multiplier >= 0 and abs(claimed.complementarity - product) <= _ROUNDING * product
    _require(same, f"certificate_ has complementarity = {claimed.complementarity!r}, not {product!r}")
    gain, epsilon = claimed.possible_gain, claimed.near_epsilon
    _require(gain is None or 0 <= gain < np.inf, f"certificate_ has possible_gain = {gain!r}, which is not a gain")
    if epsilon is not None or claimed.near_delta is not None:
        at_x = max(claimed.stationarity_squared, claimed.complementarity)
        possible = epsilon is not None and 0 <= epsilon < at_x and 0 <= claimed.delta < np.inf
        _require(possible, f"certificate_ has near_epsilon = {epsilon!r}: at x it is {at_x!r}")


def budget_of(model: Any) -> Budget:
    """Return the budget of a fitted model."""
    level = model.level_
    cost = getattr(model, "budget_", None)
    return Budget(level=level) if hasattr(model, "constraint_") else Budget(features=int(level), cost=cost)


def sizes_of(model: Any) -> NDArray[np.float64]:
    """Return |scale_ · coef_| of every feature: the length of its coefficients, where it has several."""
    with np.errstate(over="ignore", under="ignore"):
        inside = np.atleast_2d(model.coef_).astype(np.float64) * model.scale_
    return np.abs(inside[0]) if inside.shape[0] == 1 else group_norms(inside.T.ravel(), inside.shape[0])


def _check_choice(model: Any) -> None:
    best, results, i = model.best_params_, model.cv_results_, model.best_index_
    name, value = next(iter(best.items()))
    ridge = best.get("ridge")
    same = ridge is None or ridge == model.ridge_ == results["ridge"][i]
    _require(same, f"best_params_ = {best} is not what ridge_ and cv_results_ say")
    _require(name in results and i < len(results[name]), f"best_index_ = {i} is not in cv_results_")
    chosen = getattr(model, "budget_", None) if name == "budget" else model.level_
    same = results[name][i] == value == chosen
    _require(same, f"best_params_ = {best} is not what best_index_ and level_ say")


def _is_count(n: object) -> bool:
    return isinstance(n, int) and not isinstance(n, bool) and n >= 0


def _is_vector(array: object, kinds: str, may_be_nan: bool = False) -> bool:
    if not (isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind in kinds):
        return False
    return may_be_nan or _is_finite(array)


def _are_labels(classes: NDArray[Any]) -> bool:
    return classes.dtype.kind != "O" or all(isinstance(one, str | int | float) for one in classes)


def _is_numbers(array: object) -> bool:
    return isinstance(array, np.ndarray) and array.dtype in (np.float32, np.float64) and _is_finite(array)


def _is_finite(array: NDArray[Any]) -> bool:
    return array.dtype.kind != "f" or bool(np.all(np.isfinite(array)))


def _is_table(results: dict[Any, Any]) -> bool:
    """Return whether results are columns of one length, with their names."""
    columns = results.values()
    right = all(isinstance(name, str) for name in results) and all(_is_vector(one, "biuf", True) for one in columns)
    return right and len({one.size for one in columns}) == 1


_TYPES: dict[str, tuple[type, ...]] = {
    "float": (float, int),
    "int": (int,),
    "bool": (bool,),
    "str": (str,),
    "Phase": (str,),
    "None": (type(None),),
    "Additions": (Additions,),
    "Swaps": (Swaps,),
    "tuple[int, int]": (tuple,),
}


def _is_typed(one: Any) -> bool:
    """Return whether the fields of a dataclass have the types of its annotations."""
    for field in fields(one):
        value = getattr(one, field.name)
        types = tuple(kind for word in str(field.type).split(" | ") for kind in _TYPES[word])
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            return False
        if is_dataclass(value) and not _is_typed(value):
            return False
    return True

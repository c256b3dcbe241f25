"""Parameters of estimators: budgets, checks that all estimators share, constraints and losses by name."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from levelprox._typing import RandomState, Vector
from levelprox._validation import finite, option, real, real_array, whole
from levelprox._validation import nonnegative as at_least_zero
from levelprox.constraints import L1, MCP, SCAD, Constraint, Exp, Log, Lp, NegativeLp, Rescaled
from levelprox.constraints.costs import checked_budget
from levelprox.estimators._features import FeatureNames, costs_of
from levelprox.exceptions import InfeasibleError, InvalidInputError
from levelprox.io.checkpoint import Checkpoint
from levelprox.losses import LOSS_TYPES, Loss, loss_by_name
from levelprox.methods.subsolvers import Subsolver
from levelprox.result import Record
from levelprox.subset.result import SubsetRecord

#: Called with the record of each step; returning True stops the fit.
Callback = Callable[[Record | SubsetRecord], "bool | None"]

#: Numbers of features tried where neither n_features nor level is given, as far as there are features. An information
#: criterion takes those with `SAMPLES_PER_FEATURE` samples for each feature: it is for few features for their samples.
DEFAULT_GRID = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30)
#: Numbers of features, levels and costs of a path where none are given.
_MOST_COUNTS, _LEVELS = 30, 20
#: Default number of features: one for this many samples or, of classes, samples of the rarest class (the rule of ten
#: events for each variable), and at most this many.
SAMPLES_PER_FEATURE, MOST_DEFAULT_FEATURES = 10, 10


@dataclass(frozen=True)
class Budget:
    """How much a model may use: exactly one of the first two.

    Attributes
    ----------
    features : int or None
        k: at most so many nonzero features.
    level : float or None
        η: g(scale_ · coef_) ≤ η.
    cost : float or None
        What the features may cost together, besides k; None where they have no costs.
    ridge : float or None
        λ, where it is chosen from a grid; None is that of the estimator.
    """

    features: int | None = None
    level: float | None = None
    cost: float | None = None
    ridge: float | None = None

    @property
    def key(self) -> tuple[float, float | None]:
        """Key of a candidate of a grid."""
        return self.value, self.ridge

    @property
    def name(self) -> str:
        """Parameter of an estimator that varies over a grid."""
        if self.cost is not None:
            return "budget"
        return "level" if self.features is None else "n_features"

    @property
    def value(self) -> float:
        """Cost, k or η."""
        return self.cost if self.cost is not None else self.at_most

    @property
    def at_most(self) -> float:
        """k or η, without the cost."""
        return float(self.features if self.features is not None else self.level)  # type: ignore[arg-type]  # one is given


def cost_budgets(budget: Any, feature_cost: Any, n_features: Any, level: Any, d: int) -> list[Budget]:
    """Return the budgets of costs in ascending order, each once; none where there are none.

    d is how many features there may be where n_features does not say it.
    """
    if (budget is None) != (feature_cost is None):
        one, other = ("budget", "feature_cost") if feature_cost is None else ("feature_cost", "budget")
        raise InvalidInputError(f"{one} needs {other}: feature_cost says what features cost, budget what may be spent")
    if budget is None:
        return []
    if level is not None:
        raise InvalidInputError(f"a budget is for whole features: give n_features or neither, not level={level!r}")
    if np.ndim(budget) > 1 or not np.size(budget):
        raise InvalidInputError(f"budget must be a number or a list of numbers, got shape {np.shape(budget)}")
    if np.ndim(n_features) > 0:
        raise InvalidInputError(f"with a budget give one n_features, or none, got {n_features!r}")
    k = d if n_features is None else whole("n_features", n_features)
    given = [budget] if np.ndim(budget) == 0 else list(budget)
    return [Budget(features=k, cost=cost) for cost in sorted({checked_budget(one) for one in given})]


def budgets_of(n_features: Any, level: Any) -> list[Budget]:
    """Return the budgets in ascending order, each once; none where none is given."""
    if n_features is not None and level is not None:
        raise InvalidInputError(
            f"give either n_features or level, not both; got n_features={n_features!r}, level={level!r}"
        )
    if level is not None:
        levels = np.atleast_1d(np.array(finite("level", real_array("level", level)), np.float64))
        if levels.ndim != 1 or not levels.size:
            raise InvalidInputError(f"level must be a list of numbers, got shape {levels.shape}")
        if np.any(levels < 0):
            raise InfeasibleError(f"no feasible point: g(x) >= 0 for all x, got level={levels.min():g}")
        return [Budget(level=float(one)) for one in np.unique(levels)]
    if n_features is None:
        return []
    if np.ndim(n_features) > 1 or not np.size(n_features):
        raise InvalidInputError(f"n_features must be a list of integers, got shape {np.shape(n_features)}")
    given = [n_features] if np.ndim(n_features) == 0 else list(n_features)
    return [Budget(features=k) for k in sorted({whole("n_features", k) for k in given})]


def default_budgets(most: int) -> list[Budget]:
    """Return numbers of features up to a largest one, which is among them where it is small."""
    last = min(most, DEFAULT_GRID[-1])
    return [Budget(features=k) for k in (*(k for k in DEFAULT_GRID if k < last), last)]


def ridges_of(ridge: Any) -> list[float]:
    """Return the ridges of a grid, the largest first; none where there is no grid."""
    if isinstance(ridge, str) or np.ndim(ridge) == 0:
        return []
    given = np.asarray(finite("ridge", real_array("ridge", ridge)), np.float64)
    if given.ndim != 1 or not given.size:
        raise InvalidInputError(f"ridge must be a number, 'auto' or a list of numbers, got shape {given.shape}")
    if np.any(given < 0):
        raise InvalidInputError(f"ridge must not be negative, got {given.min():g}")
    return [float(one) for one in np.unique(given)[::-1]]


@dataclass(eq=False, repr=False)
class Parameters(BaseEstimator):
    """Parameters that all estimators share, and their checks.

    As scikit-learn requires, the constructor stores every parameter as it is given; `fit` checks them. The estimators
    document them. Those of type Any depend on the estimator.
    """

    loss: str | Loss
    _: KW_ONLY
    n_features: Any = None
    level: Any = None
    constraint: str | Constraint = "mcp"
    feature_weight: ArrayLike | dict[str, float] | dict[int, float] | None = None
    keep: ArrayLike | None = None
    feature_cost: ArrayLike | Mapping[str, float] | None = None
    budget: Any = None
    ridge: Any = 0.0
    fit_intercept: bool = True
    standardize: bool = True
    positive: bool | ArrayLike = False
    tol: float = 1e-6
    max_iter: int = 1000
    time_limit: float | None = None
    subsolver: str | Subsolver = "auto"
    start: str = "auto"
    device: str | None = None
    random_state: RandomState = None
    verbose: int = 0
    callback: Callback | None = None
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None
    resume: bool | str | os.PathLike[str] = False

    def _budget(self, n: float) -> Budget:
        """Return the budget; by default a feature for every ten of n, at least 1 and at most 10."""
        if self.n_features is not None and self.level is not None:
            raise InvalidInputError(
                f"give either n_features or level, not both; got n_features={self.n_features!r}, level={self.level!r}"
            )
        costs = cost_budgets(self.budget, self.feature_cost, self.n_features, self.level, self._most())
        if costs:
            if len(costs) > 1:
                raise InvalidInputError(
                    f"budget must be one number, got {self.budget!r}; SparseClassifierCV and SparseRegressorCV choose "
                    "from several"
                )
            return costs[0]
        if self.level is None:
            by_rule = int(max(1, min(n / SAMPLES_PER_FEATURE, MOST_DEFAULT_FEATURES)))
            self._check_one("n_features", self.n_features)
            return Budget(features=by_rule if self.n_features is None else whole("n_features", self.n_features))
        self._check_one("level", self.level)
        level = real("level", self.level)
        if level < 0:
            raise InfeasibleError(f"no feasible point: g(x) >= 0 for all x, got level={level:g}")
        if math.isinf(level):
            raise InvalidInputError("level must be finite, got inf; without a budget, set n_features to X.shape[1]")
        return Budget(level=level)

    def _budgets(self, n: int, d: int) -> list[Budget]:
        """Return the budgets of a path by default: up to that of the estimator."""
        own = self._budget(n)
        if own.cost is not None:
            costs = np.unique(np.linspace(0, own.cost, _LEVELS + 1)).tolist()
            most = d if self.n_features is None else own.features
            return [Budget(features=most, cost=cost) for cost in costs]
        if own.level is not None:
            return [Budget(level=level) for level in np.unique(np.linspace(0, own.level, _LEVELS + 1)[1:]).tolist()]
        most = min(int(own.value), d)
        counts = np.unique(np.linspace(0, most, min(most, _MOST_COUNTS) + 1).astype(np.int64))
        return [Budget(features=k) for k in counts.tolist()]

    def _most(self) -> int:
        """Return the number of features of X; 0 before X is read."""
        return int(getattr(self, "n_features_in_", 0))

    def _costs(self, d: int, weight: Vector | None) -> Vector:
        """Return what each of d features costs; 0 for those that are kept."""
        kept = np.empty(0, np.intp) if weight is None else np.flatnonzero(weight == 0)
        costs = costs_of(self.feature_cost, d, getattr(self, "feature_names_in_", None), kept)
        costs[kept] = 0.0
        return costs

    def _check_one(self, name: str, value: object) -> None:
        """Raise InvalidInputError for several budgets: another class chooses among these."""
        if isinstance(value, str) or np.ndim(value) > 0 or isinstance(value, range):  # type: ignore[arg-type]
            kind = "an integer of at least 0" if name == "n_features" else "a real number"
            raise InvalidInputError(
                f"{name} must be {kind}, got {value!r}. {type(self).__name__}CV chooses among several: "
                f"{type(self).__name__}CV({name}=[...])"
            )

    def _check_for(self, budget: Budget) -> None:
        """Raise InvalidInputError for parameters that would have no effect."""
        if budget.features is None:
            return
        for name, default in (("constraint", "mcp"), ("subsolver", "auto"), ("start", "auto")):
            value = getattr(self, name)
            if not (isinstance(value, str) and option(value) == default):
                if name == "constraint":
                    constraint_of(value, 1.0)  # there may be no such constraint
                raise InvalidInputError(
                    f"{name}={value!r} is for fits under a level; at most n_features={budget.features} features are "
                    f"found without it. Set level, or leave {name} at {default!r}"
                )

    def _feature_weight(self, budget: Budget, d: int) -> Vector | None:
        """Return ω, what each feature counts: 0 for those that are kept; None where all count one."""
        if self.feature_weight is None and self.keep is None:
            return None
        features = FeatureNames.of(self, d)
        weight = np.ones(d) if self.feature_weight is None else features.values("feature_weight", self.feature_weight)
        if np.any(weight < 0):
            j = int(np.argmax(weight < 0))
            name = "" if features.names is None else f", {features.called(j)}"
            raise InvalidInputError(f"feature_weight must not be negative, got {weight[j]:g} at index {j}{name}")
        if self.keep is not None:
            weight[features.mask("keep", self.keep)] = 0.0
        if budget.features is not None and np.unique(weight[weight > 0]).size > 1:
            raise InvalidInputError(
                "with n_features every feature counts as one: feature_weight must be 0 (kept in any case) or one "
                "positive value; unequal weights are for level"
            )
        return weight

    def _positive(self, d: int) -> bool | NDArray[np.bool_]:
        """Return which coefficients must not be negative: all, none, or those of a mask."""
        if isinstance(self.positive, bool | np.bool_):
            return bool(self.positive)
        if self.positive is None or isinstance(self.positive, int | float | str | np.number):
            raise InvalidInputError(f"positive must be True or False, or a list of features, got {self.positive!r}")
        return FeatureNames.of(self, d).mask("positive", self.positive)

    def _by_index(self, d: int) -> dict[str, Any]:
        """Return parameters that may name features as arrays over all of them, for fits of data without names."""
        features, found = FeatureNames.of(self, d), dict[str, Any]()
        if self.keep is not None:
            found["keep"] = features.mask("keep", self.keep)
        if isinstance(self.feature_weight, Mapping):
            found["feature_weight"] = features.values("feature_weight", self.feature_weight)
        if not isinstance(self.positive, bool | np.bool_):
            found["positive"] = self._positive(d)
        if self.feature_cost is not None:
            found["feature_cost"] = self._costs(d, self._feature_weight(Budget(features=d), d))
        return found

    def _ridge(self) -> float | None:
        """Return λ ≥ 0; None for "auto"."""
        if isinstance(self.ridge, str):
            if option(self.ridge) == "auto":
                return None
            raise InvalidInputError(f"ridge must be a number or 'auto', got {self.ridge!r}")
        self._check_one("ridge", self.ridge)
        ridge = at_least_zero("ridge", self.ridge)
        if math.isinf(ridge):
            raise InvalidInputError("ridge must be finite, got inf")
        return ridge


def boolean(name: str, value: object) -> bool:
    """Return `value`; raise InvalidInputError unless it is a bool."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInputError(f"{name} must be True or False, got {value!r}")
    return bool(value)


#: Of the unit of the coefficients: a coefficient this large costs one feature.
THRESHOLD = 0.1

#: Constraints by name, in the units of the data: a coefficient of `threshold` (of scale_ · coef_) costs about one.
#:
#:     mcp, scad      cost 1 from the threshold on
#:     exp            1 − exp(−3 t/threshold): 0.95 at the threshold, at most 1
#:     negative_lp    1 − 1/(1 + 9 t/threshold): 0.9 at the threshold, at most 1
#:     log            log(1 + 10 t/threshold)/log(11): 1 at the threshold, growing ever more slowly
#:     lp             (t/threshold + 0.01)^½ − 0.1: 0.9 at the threshold, growing like √t
#:     l1             t itself: a level is a bound on Σ |scale_ · coef_|
NAMED_CONSTRAINTS: dict[str, Callable[[float], Constraint]] = {
    "mcp": MCP.from_threshold,
    "scad": SCAD.from_threshold,
    "exp": lambda threshold: Exp(3 / threshold),
    "negative_lp": lambda threshold: NegativeLp(-1.0, 9 / threshold),
    "log": lambda threshold: Rescaled(Log(10.0), threshold),
    "lp": lambda threshold: Rescaled(Lp(0.5, 0.01), threshold),
    "l1": lambda threshold: L1(),
}


def constraint_of(constraint: object, unit: float) -> Constraint:
    """Return the constraint; that of a name has the threshold 0.1 · unit."""
    if isinstance(constraint, Constraint):
        return constraint
    if isinstance(constraint, str) and option(constraint) in NAMED_CONSTRAINTS:
        return NAMED_CONSTRAINTS[option(constraint)](THRESHOLD * unit)
    if isinstance(constraint, type):
        raise InvalidInputError(f"constraint is the class {constraint.__name__}; did you forget ()?")
    near = get_close_matches(str(option(constraint)), NAMED_CONSTRAINTS, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    names = ", ".join(NAMED_CONSTRAINTS)
    raise InvalidInputError(f"constraint must be a Constraint or one of {names}, got {constraint!r}{hint}")


CLASSIFICATION_LOSSES = ("logistic", "squared_hinge", "hinge", "sigmoid")
REGRESSION_LOSSES = ("squared", "huber", "quantile", "absolute", "poisson", "gamma", "cauchy")
#: Names of losses in other libraries.
_OTHER_NAMES = {
    "squared": ("mse", "squared_error", "squared_loss", "least_squares", "ls", "l2", "ols", "gaussian", "normal"),
    "absolute": ("mae", "absolute_error", "l1", "lad"),
    "quantile": ("pinball",),
    "logistic": ("log_loss", "log", "logit", "binomial", "bernoulli", "cross_entropy", "deviance"),
    "hinge": ("svm",),
}
_OF_ALL_CLASSES = ("softmax", "multinomial")


def loss_of(loss: object, names: tuple[str, ...]) -> Loss:
    """Return the loss, one of `names` or an object of their kind."""
    if isinstance(loss, Loss) and (loss.kind == "margin") == (names is CLASSIFICATION_LOSSES):
        return loss
    if isinstance(loss, str) and option(loss) in names:
        return loss_by_name(option(loss))
    raise InvalidInputError(f"loss must be one of {', '.join(names)} or such a Loss, got {loss!r}{_hint(loss, names)}")


def _hint(loss: object, names: tuple[str, ...]) -> str:
    if isinstance(loss, type):
        return "; did you forget ()?"
    if isinstance(loss, int | float | np.number):
        return f"; a number of features is given as n_features={loss}"
    if option(loss) in _OF_ALL_CLASSES and names is CLASSIFICATION_LOSSES:
        return "; use loss='logistic', multi_class='softmax'"
    name = loss.name if isinstance(loss, Loss) else str(option(loss))
    if name in {kind.name for kind in LOSS_TYPES} | {*_OF_ALL_CLASSES}:
        other = "regression: SparseRegressor" if names is CLASSIFICATION_LOSSES else "classification: SparseClassifier"
        return f", which is for {other}"
    near = [one for one in names if name.lower() in _OTHER_NAMES.get(one, ())]
    near = near or get_close_matches(name.lower(), names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""

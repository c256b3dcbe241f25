"""Features by name: what a user gives for some of them, as an array over all of them.

Wherever a parameter speaks of features it may use their names (columns of X), their indices or a mask, and a dict for
numbers: `keep=["age", "sex"]`, `feature_weight={"age": 0}`. `FeatureNames` turns these into arrays. Errors name the
parameter and what it holds, with the nearest name.

Costs of features as estimators are given them: for each column, or by name.

Constraints by name, in the units of the data: what a user means by constraint="mcp", level=5.5.

A named constraint is drawn so that a coefficient of `threshold` (of scale_ · coef_) costs about one feature:

    mcp, scad      cost 1 from the threshold on
    exp            1 − exp(−3 t/threshold): 0.95 at the threshold, at most 1
    negative_lp    1 − 1/(1 + 9 t/threshold): 0.9 at the threshold, at most 1
    log            log(1 + 10 t/threshold)/log(11): 1 at the threshold, growing ever more slowly
    lp             (t/threshold + 0.01)^½ − 0.1: 0.9 at the threshold, growing like √t
    l1             t itself: a level is a bound on Σ |scale_ · coef_|

Losses by name, those that an estimator has a use for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox._typing import Mask, Vector
from levelprox._validation import as_array, finite, option, real, real_array
from levelprox.constraints import L1, MCP, SCAD, Constraint, Exp, Log, Lp, NegativeLp, Rescaled
from levelprox.constraints.costs import checked_costs
from levelprox.exceptions import InvalidInputError
from levelprox.losses import LOSS_TYPES, Loss, loss_by_name


@dataclass(frozen=True, eq=False)
class FeatureNames:
    """The features of X.

    Attributes
    ----------
    count : int
        How many there are.
    names : ndarray of str of shape (count,), optional
        What they are called, where X has names.
    """

    count: int
    names: NDArray[Any] | None = None

    @classmethod
    def of(cls, model: Any, count: int) -> FeatureNames:
        """Those of an estimator that has seen X."""
        return cls(count, getattr(model, "feature_names_in_", None))

    def mask(self, parameter: str, given: Any) -> Mask:
        """Which features are meant.

        Parameters
        ----------
        parameter : str
            What errors call it.
        given : str, int, or array-like of str, int or bool
            One feature, or several, by name or index; or a mask of all of them.
        """
        mask = np.zeros(self.count, np.bool_)
        values = [given] if isinstance(given, str | int | np.integer) and not isinstance(given, bool) else given
        if isinstance(values, Mapping) or not isinstance(values, Iterable):
            raise InvalidInputError(
                f"{parameter} must be a list of features, by name or index, or a mask of all {self.count}, got "
                f"{given!r}"
            )
        array = as_array(parameter, values) if isinstance(values, np.ndarray) else np.array(list(values), dtype=object)
        if array.ndim != 1:
            raise InvalidInputError(f"{parameter} must have one dimension, got shape {array.shape}")
        entries = array.tolist()
        if entries and all(isinstance(one, bool) for one in entries):
            if len(entries) != self.count:
                raise InvalidInputError(
                    f"{parameter} is a mask of {len(entries)} features, and X has {self.count} of them"
                )
            return np.array(entries, np.bool_)
        mask[[self.place(parameter, one) for one in entries]] = True
        return mask

    def values(self, parameter: str, given: Any, default: float = 1.0) -> Vector:
        """One finite number for each feature.

        Parameters
        ----------
        parameter : str
            What errors call it.
        given : dict of str or int to float, or array-like of shape (count,)
            Of some features, by name or index; or of all of them.
        default : float, default=1.0
            For features that a dict does not have.
        """
        if isinstance(given, Mapping):
            values = np.full(self.count, default)
            for key, value in given.items():
                values[self.place(parameter, key)] = real(f"{parameter}[{key!r}]", value)
        else:
            values = np.array(real_array(parameter, given), np.float64)
            if values.shape != (self.count,):
                raise InvalidInputError(
                    f"{parameter} must have shape ({self.count},), one for each feature, got {values.shape}; of some "
                    "features give a dict"
                )
        finite(parameter, values)
        return values

    def place(self, parameter: str, key: Any) -> int:
        """The index of one feature, by name or index."""
        if isinstance(key, str):
            return self._named(parameter, key)
        if isinstance(key, bool | np.bool_) or not isinstance(key, int | np.integer):
            raise InvalidInputError(f"{parameter} must hold names or indices of features, got {key!r}")
        if not 0 <= key < self.count:
            raise InvalidInputError(
                f"{parameter} has the feature {int(key)}, and indices are from 0 to {self.count - 1}"
            )
        return int(key)

    def called(self, j: int) -> str:
        """What a message calls a feature: its name, or its index."""
        return f"feature {j}" if self.names is None else repr(str(self.names[j]))

    def _named(self, parameter: str, name: str) -> int:
        if self.names is None:
            raise InvalidInputError(
                f"{parameter} has the name {name!r}, and X has no names of columns: give a DataFrame, or indices. "
                "Behind other steps of a pipeline, pipeline.set_output(transform='pandas') keeps the names"
            )
        found = np.flatnonzero(self.names == name)
        if found.size:
            return int(found[0])
        near = get_close_matches(name, [str(one) for one in self.names], n=1, cutoff=0.5)
        same = [str(one) for one in self.names if str(one).lower() == name.lower()]
        hint = f"did you mean {(same or near)[0]!r}?" if same or near else f"there are {_some(self.names)}"
        raise InvalidInputError(f"{parameter} has the name {name!r}, which is no column of X; {hint}")


def _some(names: NDArray[Any]) -> str:
    """The first few names."""
    shown = ", ".join(repr(str(name)) for name in names[:8])
    return shown if names.size <= 8 else f"{shown} and {names.size - 8} more"


_SHOWN = 5  # names in an error


def by_name(given: Any) -> dict[Any, Any] | None:
    """`given` as a dict where it has names: a mapping, or a Series with words as its index; else None."""
    if isinstance(given, Mapping):
        return dict(given)
    if hasattr(given, "to_dict") and hasattr(given, "index") and any(isinstance(name, str) for name in given.index):
        return dict(given.to_dict())
    return None


def costs_of(given: Any, d: int, names: Sequence[str] | None, kept: Iterable[int]) -> Vector:
    """One cost for each of d columns.

    Parameters
    ----------
    given : array-like of shape (d,), dict or Series
        By name, every feature must have a cost but those that are kept, which cost nothing.
    d : int
    names : sequence of str, optional
        Of the columns; x0, x1 and so on where they have none.
    kept : iterable of int
    """
    told = by_name(given)
    if told is None:
        costs = checked_costs(given)
        if costs.shape != (d,):
            raise InvalidInputError(f"feature_cost must have shape ({d},), one for each feature, got {costs.shape}")
        return np.array(costs)
    places = {str(name): j for j, name in enumerate([f"x{j}" for j in range(d)] if names is None else names)}
    unknown = [name for name in told if name not in places]
    if unknown:
        near = get_close_matches(str(unknown[0]), places, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InvalidInputError(f"feature_cost names {_listed(unknown)}, and X has no such feature{hint}")
    known = np.zeros(d, np.bool_)
    known[list(kept)] = True
    known[[places[name] for name in told]] = True
    if not np.all(known):
        missing = [name for name, j in places.items() if not known[j]]
        raise InvalidInputError(
            f"feature_cost has no cost for {_listed(missing)}; give one for every feature, 0 for those that are free"
        )
    costs = np.zeros(d)
    for name, cost in told.items():
        number = real(f"feature_cost[{name!r}]", cost)
        if not 0 <= number < np.inf:
            raise InvalidInputError(f"feature_cost must be finite and not negative, got {cost!r} for {name!r}")
        costs[places[name]] = number
    return costs


def _listed(names: Sequence[object]) -> str:
    shown = ", ".join(repr(name) for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


#: Of the unit of the coefficients: a coefficient this large costs one feature.
THRESHOLD = 0.1

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

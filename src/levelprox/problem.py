"""The two problems: min ψ(x) under a level of g, and min ψ(x) over at most k features.

`Problem` has the constraint g(x) = Σ_j ω_j φ(|x_j|) ≤ η; `SubsetProblem` bounds the number of nonzero features, or
their cost. Both may require x_j ≥ 0.

Where a feature has several coefficients, one for each class, |x_j| is their 2-norm: a feature counts once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

import levelprox._kernels as _kernels
from levelprox._typing import Features, Mask, Vector
from levelprox._validation import (
    finite,
    must_be,
    nonnegative_mask,
    real,
    real_array,
    signs_without,
    weights_without,
    whole,
)
from levelprox.constraints import MCP, Constraint
from levelprox.constraints.costs import Costs
from levelprox.exceptions import InfeasibleError, InvalidInputError, renamed_attribute
from levelprox.objectives import Objective
from levelprox.projection import group_norms

Signs = bool | Mask | None
_ULP = float(np.finfo(np.float64).eps)
_LEAST_SHORTENED = 1e-9  # of x
_FEW, _MANY_COORDINATES = 10, 500  # features, and coordinates of theirs from which on models take long


class FeatureProblem:
    """Minimise ψ over features, some of which are unpenalized and some of which may not be negative.

    Base class of `Problem` and `SubsetProblem`: dimensions, supports, coordinates and signs.

    Attributes
    ----------
    dimension : int
        Number of coordinates d.
    n_outputs : int
        Number of coefficients per feature: 1, or the number of classes.
    n_features : int
        Number of features.
    unpenalized : ndarray of int
        The features that never count.
    signs : (ndarray of uint8 or None, bool)
        The coordinates with x_j ≥ 0, as the kernels take them: (mask or None, all of them).
    """

    objective: Objective
    nonnegative: Signs
    costs: Costs | None = None  # what features cost, and a budget; of a `SubsetProblem` only
    dimension: int
    n_outputs: int
    width = renamed_attribute("width", "n_outputs")
    n_features: int
    unpenalized: Features
    signs: tuple[NDArray[np.uint8] | None, bool]

    def counts(self, features: Features) -> Mask:
        """Return which of these features count."""
        raise NotImplementedError

    def restrict(self, W: Features) -> Self:
        """Return the same problem over the features in W, with the others at zero."""
        raise NotImplementedError

    def with_objective(self, objective: Objective) -> Self:
        """Return the same problem for another ψ over the same features."""
        return self._copied(objective=objective)

    def _copied(self, **changes: object) -> Self:
        """Return a copy with some attributes replaced, which are not checked."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, **changes)
        return other

    def _restricted(self, W: Features, **changes: object) -> Self:
        """Return a copy over the features in W; `changes` are those of the subclass."""
        part, nonnegative = self.objective.restrict(W), self.must_be_nonnegative()[W] if self.n_outputs == 1 else None
        return self._copied(
            objective=part,
            nonnegative=nonnegative,
            dimension=part.dimension,
            n_features=part.dimension // self.n_outputs,
            unpenalized=np.isin(W, self.unpenalized).nonzero()[0],
            signs=nonnegative_mask(nonnegative, part.dimension),
            **changes,
        )

    def _set(self, **values: object) -> None:
        """Set attributes of the frozen dataclass to checked values."""
        self.__dict__.update(values)

    def _set_dimensions(self) -> None:
        d, n_outputs = self.objective.dimension, self.objective.n_outputs
        self._set(dimension=d, n_outputs=n_outputs, n_features=d // n_outputs)

    def _checked_signs(self) -> tuple[NDArray[np.uint8] | None, bool]:
        """Return `signs`, from what was given for `nonnegative`."""
        if self.n_outputs > 1:
            if np.any(np.asarray(self.nonnegative)):
                raise InvalidInputError(
                    "nonnegative is for features with one coefficient: the norm of several has no sign, and projecting "
                    "onto their common ball would no longer keep signs apart from sizes"
                )
            return None, False
        signs = signs_without(self.objective.unpenalized, self.nonnegative, self.n_features)
        mask, all_nonnegative = nonnegative_mask(signs, self.dimension)
        return None if mask is None else mask.copy(), all_nonnegative

    def spread(self, features: Features, values: Vector) -> Vector:
        """Return x over all coordinates, from the coefficients of these features."""
        x = np.zeros(self.dimension)
        x[self.coordinates(features)] = values
        return x

    def sizes(self, x: Vector) -> Vector:
        """Return |x_j| of each feature, or the 2-norm of its coefficients, rounded up."""
        return np.abs(x) if self.n_outputs == 1 else group_norms(x, self.n_outputs)

    def counted(self, features: Features) -> Features:
        """Return those of these features that count."""
        return features[self.counts(features)]

    def support(self, x: Vector) -> Features:
        """Return the features that are not zero."""
        sizes = x if self.n_outputs == 1 else self.sizes(x)
        return np.asarray((sizes != 0).nonzero()[0])  # NumPy finds places in a mask far faster than in floats

    def coordinates(self, features: Features) -> Features:
        """Return the places of the coefficients of these features in x."""
        if self.n_outputs == 1:
            return features
        return np.asarray((features[:, None] * self.n_outputs + np.arange(self.n_outputs)).ravel(), np.intp)

    def must_be_nonnegative(self) -> Mask:
        """Return a boolean mask of the coordinates with x_j ≥ 0."""
        mask, all_nonnegative = self.signs
        return np.full(self.dimension, all_nonnegative) if mask is None else mask.view(np.bool_)

    @property
    def n_counted(self) -> int:
        """How many features count."""
        return self.n_features - self.unpenalized.size

    def with_unpenalized(self, features: Features) -> Features:
        """Return these features and those that are in every fit."""
        return np.union1d(features, self.unpenalized).astype(np.intp)

    def allows(self, features: Features) -> bool:
        """Return whether the budget, if there is one, pays for a set."""
        return self.costs is None or self.costs.allows(features.tolist())

    def affordable(self, features: Features, i: int | None = None) -> Mask | None:
        """Return which features outside a set the budget allows, in place of its i-th one or besides all of them.

        None where there is no budget.
        """
        if self.costs is None:
            return None
        mask = self.costs.affordable(features if i is None else np.delete(features, i))
        mask[features] = False
        return mask

    def count_swaps(self, features: Features) -> int:
        """Return how many swaps of a feature that counts for one outside there are; only those the budget allows."""
        inside = self.counted(features)
        if self.costs is not None:
            return self.costs.count_swaps(features, inside)
        return int(inside.size * (self.n_counted - inside.size))

    @property
    def has_many_coordinates(self) -> bool:
        """True if second-order models over a few features take long: with many classes these have many coordinates."""
        return self.n_outputs > 1 and self.n_outputs * min(self.n_features, _FEW) > _MANY_COORDINATES

    @property
    def centred(self) -> bool:
        """True if there is an intercept that is free of sign: it may take up the means of columns."""
        scale, (mask, all_nonnegative) = self.objective.feature_scale, self.signs
        if scale is None or scale.intercept is None or all_nonnegative:
            return False
        return mask is None or not mask[scale.intercept]


@dataclass(frozen=True, eq=False)
class Problem(FeatureProblem):
    """The problem min ψ(x) s.t. Σ_j ω_j φ(|x_j|) ≤ η.

    For features with several coefficients |x_j| is ‖x_j‖₂.

    Parameters
    ----------
    objective : Objective
        ψ; its `n_outputs` is the number of coefficients of a feature.
    constraint : Constraint
        φ, one coordinate of g.
    level : float
        η ≥ 0, finite.
    weights : array-like of shape (n_features,), optional
        ω ≥ 0. A feature with weight 0 is unpenalized (an intercept, a feature that must stay). The intercept of the
        objective always has weight 0; its entry may be omitted.
    nonnegative : bool or array-like of bool of shape (d,), optional
        Coordinates that must be nonnegative. True excludes the intercept of the objective. Not supported for features
        with several coefficients.

    Examples
    --------
    >>> from levelprox import LinearModel, Problem, constraints
    >>> problem = Problem(LinearModel([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0]), constraints.L1(), 1.5)
    >>> problem.g([0.5, -1.0]), problem.is_feasible([0.5, -1.0]), problem.is_feasible([1.0, 1.0])
    (1.5, True, False)
    """

    objective: Objective
    constraint: Constraint
    level: float
    weights: Vector | None = None
    nonnegative: bool | Mask | None = None

    def __post_init__(self) -> None:
        must_be("objective", self.objective, Objective)
        must_be("constraint", self.constraint, Constraint)
        level = real("level", self.level)
        if level < 0:
            raise InfeasibleError(f"no feasible point: g(x) >= 0 for all x, got level={level:g}")
        if np.isinf(level):
            raise InvalidInputError("level must be finite, got inf; without a level, fit an unconstrained model")
        self._set_dimensions()
        weights = weights_without(self.objective.unpenalized, self.weights, self.n_features)
        if self.n_outputs > 1:
            # Never None: from them and x alone the surrogate determines which coordinates belong together.
            weights = np.ones(self.n_features) if weights is None else weights
        unpenalized = np.empty(0, np.intp) if weights is None else np.flatnonzero(weights == 0)
        self._set(level=level, weights=weights, unpenalized=unpenalized, signs=self._checked_signs())

    @classmethod
    def unconstrained(cls, objective: Objective, nonnegative: Signs = None) -> Problem:
        """Return the problem min ψ(x) with signs and no level: every feature is unpenalized."""
        unpenalized = np.zeros(objective.dimension // objective.n_outputs)
        return cls(objective, MCP.from_threshold(1.0), 1.0, unpenalized, nonnegative)

    def counts(self, features: Features) -> Mask:
        """Return which of these features count (ω_j > 0)."""
        return np.ones(features.size, np.bool_) if self.weights is None else self.weights[features] > 0

    def free(self, x: Vector) -> Mask:
        """Return the coordinates with a constant cost: of features that are unpenalized or beyond their threshold."""
        features = np.zeros(self.n_features, np.bool_) if self.weights is None else self.weights == 0
        sizes = x if self.n_outputs == 1 else self.sizes(x)
        support = self.support(x)  # at zero φ rises, with slope λ > 0
        features[support] |= self.constraint.slope(np.abs(sizes[support])) == 0
        return features if self.n_outputs == 1 else np.asarray(np.repeat(features, self.n_outputs))

    def g(self, x: Vector) -> float:
        """Return g(x) = Σ_j ω_j φ(|x_j|), with the sizes |x_j| of `sizes`."""
        if np.shape(x) != (self.dimension,):
            raise InvalidInputError(f"x must have shape ({self.dimension},), got {np.shape(x)}")
        point = np.asarray(x, np.float64)
        return self.constraint.total(point if self.n_outputs == 1 else self.sizes(point), self.weights)

    def is_feasible(self, x: Vector) -> bool:
        """Return whether g(x) ≤ η and every sign holds."""
        if not self.g(x) <= self.level:
            return False
        mask, all_nonnegative = self.signs
        return not (all_nonnegative or mask is not None) or not np.any(np.asarray(x)[self.must_be_nonnegative()] < 0)

    def compiled(self) -> _kernels.LevelConstraint:
        """Return the level and the units of the features in the form of the kernels."""
        scale, (mask, all_nonnegative) = self.objective.feature_scale, self.signs
        level = (
            self.constraint.compiled,
            self.n_features,
            self.n_outputs,
            self.weights,
            mask,
            all_nonnegative,
            self.level,
        )
        if scale is None:
            return _kernels.LevelConstraint(*level)
        mean, intercept = (scale.mean, scale.intercept) if self.centred else (None, None)
        return _kernels.LevelConstraint(
            *level, scale.size, mean, -1 if intercept is None else intercept, scale.working_units
        )

    def point(self, name: str, x: object, copy: bool = True) -> Vector:
        """Return `x` as a float64 array of shape (d,), finite; without `copy` it may be x itself."""
        array = np.array(real_array(name, x), dtype=np.float64, copy=True if copy else None)
        if array.shape != (self.dimension,):
            raise InvalidInputError(f"{name} must have shape ({self.dimension},), got {array.shape}")
        finite(name, array)
        return array

    def obeying(self, x: Vector) -> Vector:
        """Return x, shortened by units in the last place where g(x) ≤ η holds only up to the rounding of g.

        Then g(x) ≤ η holds in exact arithmetic.
        """
        sizes = self.sizes(x)
        excess = self.constraint.total_above(sizes, self.weights) - self.level
        charge = sizes * self.constraint.slope(sizes) * (1.0 if self.weights is None else self.weights)
        total, shorter = float(np.sum(charge)), x
        factor = 2 * excess / total if total > 0 else 1.0
        moves = np.repeat(charge > 0, self.n_outputs)
        while excess > 0 and factor < _LEAST_SHORTENED:
            shorter = np.where(moves, (1 - max(factor, _ULP)) * x, x)
            excess = self.constraint.total_above(self.sizes(shorter), self.weights) - self.level
            factor *= 2
        return shorter if excess <= 0 else x

    def cut(self, x: Vector) -> Vector:
        """Return x without its smallest features: the fewest whose removal satisfies the level; x itself if it does."""
        if self.is_feasible(x):
            return x
        sizes = self.sizes(x)
        features = np.flatnonzero(sizes if self.weights is None else sizes * self.weights)
        features = features[np.argsort(sizes[features], kind="stable")[::-1]]  # the largest first
        cost = np.asarray(self.constraint.phi(sizes[features]))
        total = np.cumsum(cost if self.weights is None else cost * self.weights[features])
        kept = int(np.searchsorted(total, self.level, side="right"))
        cut = x.copy()
        cut[self.coordinates(features[kept:])] = 0.0
        while not self.is_feasible(cut):  # sums in another order may differ in their last digits
            kept -= 1
            cut[self.coordinates(features[kept : kept + 1])] = 0.0
        return cut

    def restrict(self, W: Features) -> Problem:
        """Return the same problem over the features in W, the others held at zero."""
        return self._restricted(W, weights=None if self.weights is None else self.weights[W])

    def at_level(self, level: float, constraint: Constraint | None = None) -> Problem:
        """Return the same problem at another level, and with another constraint if one is given."""
        return self._copied(level=level, constraint=constraint or self.constraint)


@dataclass(frozen=True, eq=False)
class SubsetProblem(FeatureProblem):
    """min ψ(x) over all x with at most k nonzero features, or with features that cost at most a budget.

    Parameters
    ----------
    objective : Objective
        ψ; its own intercept never counts.
    k : int
        How many features may be nonzero.
    keep : ndarray of int, optional
        Features that are in every fit and never count; the objective's own intercept is added to them.
    nonnegative : bool or array-like of bool of shape (d,), optional
        Which coordinates must not be negative, as in `Problem`.
    costs : Costs, optional
        What each feature costs, and the budget for all of them.
    """

    objective: Objective
    k: int
    keep: Features = field(default_factory=lambda: np.empty(0, np.intp))
    nonnegative: Signs = None
    costs: Costs | None = None
    _counts: Mask = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._set_dimensions()
        keep = np.union1d(self.keep, self.objective.unpenalized).astype(np.intp)
        counts = np.ones(self.n_features, np.bool_)
        counts[keep] = False
        self._set(k=whole("k", self.k), keep=keep, unpenalized=keep, signs=self._checked_signs(), _counts=counts)

    def counts(self, features: Features) -> Mask:
        """Return which of these features count."""
        return self._counts[features]

    def relaxed(self, constraint: Constraint) -> Problem:
        """Return the problem with the level (k + ½) of a constraint of cap 1 in place of the number of features."""
        weights = self._counts.astype(np.float64) if self.unpenalized.size else None
        return Problem(self.objective, constraint, self.k + 0.5, weights, self.nonnegative)

    def restrict(self, W: Features) -> SubsetProblem:
        """Return the same problem over the features in W, with the others at zero."""
        costs = None if self.costs is None else Costs(self.costs.cost[W], self.costs.budget)
        counts = self._counts[W]
        return self._restricted(W, costs=costs, keep=np.flatnonzero(~counts), _counts=counts)

"""Whether what a fitted model claims of itself holds: all of it recomputed from data that are brought along.

Claimed are the figures of `certificate_`, the constraint and the scale of the columns. Coefficients, intercept and
scale_ are the model's; ψ, its gradient, the null fit and the deviations of the columns are computed afresh:

    ψ, scale of ∇ψ      within 1e-9 of themselves (and 1e-12 of ψ without features)
    g, level, features  g ≤ level and at most k exactly; g within 1e-9 of the level
    KKT, stationarity   no more than claimed, but for 1e-9 and what rounding coef_ and intercept_ does to the margins
    possible gain       no more than twice what is claimed, and 1e-12 of ψ without features
    multiplier          within 1000 times that, of itself; 1e-3 where the loss has kinks; complementarity likewise
    gain of one more    within 1e-6 of ψ
    columns             scale_ and the constraint's numbers within 1e-9
"""

from __future__ import annotations

import copy
import math
import warnings
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from levelprox.budget import best_subset
from levelprox.certificate import Certificate, certify
from levelprox.constraints import L1, Constraint
from levelprox.errors import InvalidInputError
from levelprox.estimators.border import Border
from levelprox.estimators.claims import Claim, Claims
from levelprox.estimators.soundness import budget_of
from levelprox.estimators.task import SUBSET_TOLERANCE, Task
from levelprox.exact_refit import ExactRefits
from levelprox.fingerprint import fingerprint
from levelprox.null_fit import NullFit, null_fit
from levelprox.problem import Problem
from levelprox.refit import Fit
from levelprox.result import Status
from levelprox.search import Search
from levelprox.subset import Exchanges, SubsetCertificate
from levelprox.watch import Watch

Vector = NDArray[np.float64]

_CLOSE = 1e-9  # relative: figures that must be the same
_NOTHING = 1e-12  # of ψ without features: what ψ may be off by where it is nearly 0
_GAIN = 1e-6  # of ψ: what a refit may miss of a gain
_LOWER = 1e-9  # of ψ: less is not an improvement
_ULPS = 64  # that coefficients may be off, in the gradient
_MULTIPLIER = 1e3  # times what is allowed of a residual
_KINKED = 1e-3
_LONG = 60.0  # seconds for the best subgradient, where the loss has kinks


def certify_model(
    model: Any,
    X: object,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    prove: bool = False,
    **more: ArrayLike | None,
) -> Claims:
    """Recompute from the data whatever a fitted model claims of itself, and compare.

    Parameters
    ----------
    model : SparseClassifier, SparseRegressor or one of their CV twins
        Fitted, or loaded.
    X, y, sample_weight
        The data of the fit; of others with the same features and classes the same is computed, and does not agree.
    prove : bool, default=False
        Whether to examine all exchanges of one feature for another again, whatever that takes.
    **more
        `offset` and `exposure`, as in `fit`.

    Returns
    -------
    Claims
        `claims.hold` says whether all is as claimed, `print(claims)` shows it.

    Raises
    ------
    InvalidInputError
        Where the data do not suit the model, or it claims nothing: after `partial_fit` there is no certificate.
    """
    check_is_fitted(model)
    if not hasattr(model, "certificate_"):
        raise InvalidInputError("a model fitted from a stream claims nothing: it has no certificate to recompute")
    target: NDArray[Any]
    data, target = model._read(X, y, reset=False, **({} if is_classifier(model) else {"y_numeric": True}))
    design, weight = model._design(data), model._weights(sample_weight, data.shape[0])
    given = {name: np.asarray(values) for name, values in more.items() if values is not None}
    known = getattr(model, "data_fingerprint_", None)
    differences = None if known is None else known.differences(fingerprint(design, target, weight, **given))
    _check_classes(model, target, weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the figures say it
        task, scale = _task_of(model, design, target, weight, given)
        figures = _Level(model, task).claims() if hasattr(model, "constraint_") else _Count(model, task).claims(prove)
    return Claims((*figures, _scale_claim(model, scale)), differences)


def _check_classes(model: Any, y: NDArray[Any], weight: Vector | None) -> None:
    if not is_classifier(model):
        return
    present = np.unique(y if weight is None else y[weight > 0])
    if not np.array_equal(present, model.classes_):
        raise InvalidInputError(
            f"y has the classes {present.tolist()}, the model {model.classes_.tolist()}: it claims nothing of such data"
        )


def _task_of(
    model: Any, design: Any, y: NDArray[Any], weight: Vector | None, more: dict[str, Any]
) -> tuple[Task, Vector]:
    """The fit's task with the model's own scale and constraint, and the scale that the data have."""
    judge, found = copy.copy(model), []

    def border(X: object, weight: Vector | None, width: int) -> Border:
        fresh = type(model)._border(model, X, weight, width)
        found.append(fresh.scale)
        return Border(X, fresh.center, model.scale_ if model.standardize else None, fresh.fit_intercept, width)

    judge._border = border
    return judge._task(design, y, weight, budget_of(model), **more), found[0]


class _Judge:
    """The problem of the fit, and its x."""

    def __init__(self, model: Any, task: Task, constraint: Constraint, level: float) -> None:
        self.model, self.task = model, task
        self.problem = Problem(task.objective, constraint, level, task.feature_weight, task.positive)
        coef, intercept = np.atleast_2d(model.coef_).astype(np.float64), np.atleast_1d(model.intercept_)
        self.x = task.border.inside(coef, intercept.astype(np.float64))
        self.null: NullFit = null_fit(self.problem)
        self.psi, self.gradient = self.problem.objective.value_and_gradient(self.x)

    def psi_claim(self, claimed: float) -> Claim:
        close = abs(self.psi - claimed) <= _CLOSE * abs(claimed) + _NOTHING * abs(self.null.psi)
        return Claim("objective ψ", claimed, self.psi, close and math.isfinite(claimed))

    def allowance(self, eps: float) -> float:
        """What rounding does to a residual: more where intercept and centre are far larger than coefficients."""
        border, largest = self.task.border, float(np.max(np.abs(self.x), initial=0.0))
        shift = float(np.max(np.abs(np.atleast_1d(self.model.intercept_)), initial=0.0))
        if border.center is not None:
            shift += float(np.max(np.abs(np.atleast_2d(self.model.coef_)) @ np.abs(border.center), initial=0.0))
        return _CLOSE + _ULPS * eps * (1 + shift / largest if largest > 0 else 1.0)


class _Level(_Judge):
    """Claims of a fit under a level."""

    def __init__(self, model: Any, task: Task) -> None:
        super().__init__(model, task, model.constraint_, model.level_)

    def claims(self) -> list[Claim]:
        told: Certificate = self.model.certificate_
        found = certify(self.problem, self.x, self.null, seconds=_LONG)
        allowed = self.allowance(np.finfo(np.float64).eps)
        return [
            self.psi_claim(told.psi),
            Claim("constraint g", told.g, found.g, _close(found.g, told.g, told.level) and found.g <= told.level),
            Claim("level η", told.level, self.model.level_, told.level == self.model.level_),
            Claim("features", told.n_nonzero, found.n_nonzero, told.n_nonzero == found.n_nonzero),
            self._kkt_claim(told, found, allowed),
            self._possible_gain_claim(told, found, allowed),
            *self._stationarity_claims(told, found, allowed * told.scale),
            self._multiplier_claim(told.multiplier, found.multiplier, allowed),
            self._complementarity_claim(told, found, allowed),
            *self._neighbour_claims(told),
            self._scale_claim(told),
            self._constraint_claim(),
        ]

    def _kkt_claim(self, told: Certificate, found: Certificate, allowed: float) -> Claim:
        """No more than claimed; version 0.1 measured it in other units, which are not computed again."""
        holds: bool | None = self._is_as_solved(told) and found.kkt <= told.kkt + allowed
        if _is_of_version_0_1(told) and self._is_as_solved(told) and not holds:
            holds = None
        return Claim("KKT residual", told.kkt, found.kkt, holds)

    def _possible_gain_claim(self, told: Certificate, found: Certificate, allowed: float) -> Claim:
        """No more than claimed, but for what rounded coefficients change in residuals and in ψ."""
        if told.possible_gain is None:
            return Claim("possible gain", None, None, None)
        if found.possible_gain is None:
            return Claim("possible gain", told.possible_gain, None, None)
        of_residuals = (allowed * told.scale) ** 2 / self.problem.objective.curvature
        most = 2 * told.possible_gain + _NOTHING * abs(self.null.psi) + self.x.size * of_residuals
        return Claim("possible gain", told.possible_gain, found.possible_gain, found.possible_gain <= most)

    def _scale_claim(self, told: Certificate) -> Claim:
        """The scale of residuals; of version 0.1 it is the largest derivative at the null fit, in the units of x."""
        found = self.null.scale
        if _is_of_version_0_1(told) and not _close(found, told.scale, told.scale):
            assert self.null.gradient is not None
            found = float(np.max(self.problem.sizes(self.null.gradient), initial=0.0))
        return Claim("scale of ∇ψ", told.scale, found, _close(found, told.scale, told.scale))

    def _is_as_solved(self, told: Certificate) -> bool:
        """Whether the residual is a number, and within tol where the fit is called solved."""
        if self.model.status_ is not Status.SOLVED:
            return math.isfinite(told.kkt)
        return bool(told.kkt <= self.model.tol + self._of_rounding())

    def _of_rounding(self) -> float:
        """What may be between a fit in float64 and its coefficients in float32, of which certificate_ speaks."""
        kind = self.model.coef_.dtype
        return 0.0 if kind == np.float64 else self.allowance(float(np.finfo(kind).eps))

    def _stationarity_claims(self, told: Certificate, found: Certificate, allowed: float) -> list[Claim]:
        """dist∞ and dist₂² as they are; no more than the residual says, where kinks leave a choice of subgradients."""
        most = told.kkt * told.scale * (1 + _CLOSE)
        bound = told.stationarity if self.problem.objective.smooth else most
        largest = found.stationarity <= bound + allowed and told.stationarity <= most
        # dist₂ is in the units of x: more than dist∞ by the size of the largest column, too.
        scale = self.problem.objective.feature_scale
        size = math.sqrt(self.x.size) * (1.0 if scale is None else scale.largest)
        length = math.sqrt(told.stationarity_squared) if self.problem.objective.smooth else size * most
        squared = math.sqrt(found.stationarity_squared) <= length + size * allowed
        squared = squared and math.sqrt(told.stationarity_squared) <= size * told.stationarity * (1 + _CLOSE)
        return [
            Claim("stationarity", told.stationarity, found.stationarity, largest),
            Claim("stationarity²", told.stationarity_squared, found.stationarity_squared, squared),
        ]

    def _multiplier_claim(self, told: float, found: float, allowed: float) -> Claim:
        """The best multiplier; where the loss has kinks it depends on which subgradient is found."""
        close = _close(found, told, max(abs(found), abs(told)), self._of_a_multiplier(allowed))
        unit = max(abs(told), self.null.scale / self.problem.constraint.lam)
        same = abs(self.model.multiplier_ - told) <= _MULTIPLIER * self._of_rounding() * unit
        return Claim("multiplier y", told, found, close and same)

    def _complementarity_claim(self, told: Certificate, found: Certificate, allowed: float) -> Claim:
        """y |g − η|, in which y is off by as much as above, and g by as much as g."""
        ours, theirs = found.complementarity, told.complementarity
        tolerance = self._of_a_multiplier(allowed) * max(ours, theirs) + _CLOSE * told.multiplier * told.level
        return Claim("complementarity", theirs, ours, abs(ours - theirs) <= tolerance < math.inf)

    def _of_a_multiplier(self, allowed: float) -> float:
        return _MULTIPLIER * allowed if self.problem.objective.smooth else _KINKED

    def _neighbour_claims(self, told: Certificate) -> list[Claim]:
        """The (ε, δ)-KKT point that the run has come from: only the run knows where that is."""
        if told.near_epsilon is None:
            return []
        sensible = 0 <= told.near_epsilon < max(told.stationarity_squared, told.complementarity) and told.delta >= 0
        words = f"ε = {told.epsilon:.2e}, δ = {told.delta:.2e}"
        return [Claim("(ε, δ)-KKT", words, None, None if sensible and math.isfinite(told.delta) else False)]

    def _constraint_claim(self) -> Claim:
        told, found = self.model.constraint_, self.task.constraint
        return Claim("constraint", repr(told), repr(found), _same_numbers(told, found))


def _is_of_version_0_1(told: Certificate) -> bool:
    """Whether residuals were measured in the units of x: there was no possible gain, either."""
    return told.possible_gain is None


class _Count(_Judge):
    """Claims of a fit of at most k features."""

    def __init__(self, model: Any, task: Task) -> None:
        # Neither matters: nothing here asks for g.
        super().__init__(model, task, L1(), 0.0)
        self.features = self.problem.support(self.x)
        self.counted = self.problem.counted(self.features)
        self.own = np.union1d(self.features, self.problem.exempt).astype(np.intp)

    def claims(self, prove: bool) -> list[Claim]:
        told: SubsetCertificate = self.model.certificate_
        count = self.counted.size
        return [
            self.psi_claim(told.psi),
            Claim("features", told.n_nonzero, count, count == told.n_nonzero and count <= told.k),
            Claim("at most k", told.k, int(self.model.level_), told.k == self.model.level_),
            self._stationarity_claim(told.stationarity),
            self._gain_claim(told),
            self._exchange_claim(told, prove),
        ]

    def _stationarity_claim(self, told: float) -> Claim:
        """dist∞(0, ∂ψ) over the features of the fit, relative to the null fit's; with kinks, what is left to gain."""
        if not self.problem.objective.smooth:  # rounded coefficients are off the kinks, where no slope tells anything
            left = self.psi - self._refitted(self.own)
            return Claim("stationarity", told, f"ψ within {max(left, 0.0):.1e}", left <= _GAIN * abs(self.psi))
        places = self.problem.coordinates(self.own)
        held, slope = self.problem.must_be_nonnegative()[places] & (self.x[places] == 0), self.gradient[places]
        largest = float(np.max(np.where(held, np.maximum(-slope, 0), np.abs(slope)), initial=0.0)) / self.null.scale
        # Of float32 it was measured before coefficients were rounded.
        allowed = self.allowance(float(np.finfo(self.model.coef_.dtype).eps))
        return Claim("stationarity", told, largest, largest <= told + allowed < math.inf)

    def _refitted(self, features: NDArray[np.intp]) -> float:
        """ψ minimised over these features, begun at the model."""
        at = Fit(self.own, self.x[self.problem.coordinates(self.own)], self.psi, np.empty(0))
        if not self.problem.objective.smooth:
            return ExactRefits(self.problem)(features, at, lambda: _LONG).psi
        search = Search(self.problem, int(self.model.level_), SUBSET_TOLERANCE * self.model.tol, False, Watch())
        search.begin()
        return search.swaps.fitted(features, at).psi

    def _gain_claim(self, told: SubsetCertificate) -> Claim:
        """What the feature gains that is said to gain most."""
        name = "one more would gain"
        if math.isnan(told.multiplier):  # the fit was cut short before anybody looked
            return Claim(
                name, None, None, None if math.isnan(self.model.multiplier_) and told.addition is None else False
            )
        if self.model.multiplier_ != told.multiplier:
            return Claim(name, told.multiplier, f"multiplier_ = {self.model.multiplier_:.10g}", False)
        if told.addition is None:
            return Claim(name, told.multiplier, None, None if told.multiplier == 0 else False)
        if not 0 <= told.addition < self.task.border.scale.size or told.addition in self.features:
            return Claim(name, told.multiplier, f"feature {told.addition} cannot", False)
        gain = self.psi - self._refitted(np.union1d(self.own, [told.addition]).astype(np.intp))
        return Claim(name, told.multiplier, gain, _close(gain, told.multiplier, abs(self.psi) + abs(gain), _GAIN))

    def _exchange_claim(self, told: SubsetCertificate, prove: bool) -> Claim:
        name, said = "one for another", str(told.exchanges)
        least, most = self.counted.size, int(self.model.level_)
        free = self.task.border.scale.size - (0 if self.task.keep is None else self.task.keep.size)
        totals = {inside * (free - inside) for inside in range(least, min(most, free) + 1)}  # some may be in it and 0
        if told.exchanges == Exchanges(0, 0) and 0 not in totals and self.model.status_ is not Status.SOLVED:
            return Claim(name, None, None, None)  # the search was cut short before it counted them
        if told.exchanges.total not in totals or not 0 <= told.exchanges.examined <= told.exchanges.total:
            return Claim(name, said, f"there are {least * (free - least)}", False)
        if not prove:
            return Claim(name, said, None, None)
        found = best_subset(
            self.task.objective,
            int(self.model.level_),
            keep=self.task.keep,
            nonnegative=self.task.positive,
            tol=SUBSET_TOLERANCE * self.model.tol,
            prove=True,
            start=self.counted,
        )
        if found.psi < self.psi - _LOWER * abs(self.psi):
            refuted = False if told.exchanges.proved else None
            return Claim(name, said, f"exchanges lower ψ to {found.psi:.10g}", refuted)
        return Claim(name, said, str(found.exchanges), True)


def _scale_claim(model: Any, scale: Vector) -> Claim:
    with np.errstate(over="ignore"):
        apart = float(np.max(np.abs(model.scale_ / scale - 1), initial=0.0))
    return Claim("scale_ of the columns", "theirs", f"within {apart:.1e}" if apart else "theirs", apart <= _CLOSE)


def _close(found: float, claimed: float, size: float, tolerance: float = _CLOSE) -> bool:
    return abs(found - claimed) <= tolerance * abs(size) < math.inf


def _same_numbers(told: Any, found: Any) -> bool:
    """Whether two constraints are of one kind, and their numbers agree."""
    if type(told) is not type(found):
        return False
    ours, theirs = asdict(told), asdict(found)
    return all(_agree(ours[key], theirs[key]) for key in ours)


def _agree(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_agree(one[key], other[key]) for key in one)
    return one == other or (isinstance(one, float) and isinstance(other, float) and _close(one, other, one))

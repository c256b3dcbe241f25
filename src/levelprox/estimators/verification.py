"""Claims of a fitted model, recomputed from data.

Claimed are the figures of `certificate_`, the constraint, the status and the scale of the columns. Coefficients,
intercept and scale_ are the model's; ψ, its gradient, the null fit and the columns' deviations are recomputed:

    ψ, scale of ∇ψ      within 1e-9 of themselves, ψ also within the rounding of margins
    g, level, features  g ≤ level and at most k exactly; g within 1e-9 of the level
    costs               no more than the budget, by exact sums
    KKT, stationarity   no more than claimed, up to 1e-9 and the effect of rounding coef_ and intercept_ on the margins
    multiplier          within 1000 times that, of itself; 1e-3 where the loss has kinks; complementarity likewise
    gain of one more    within 1e-6 of ψ, and no other feature that is refitted gains more than that above it
    columns             scale_ and the constraint's numbers within 1e-9

What is not recomputed is listed as not examined; so is a figure that differs by more than 1e-6 of ψ, and by less than
the rounding of the margins.

Recompute what a fit under a level claims: every figure of its `Certificate`.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from levelprox._runtime import one_blas_thread
from levelprox._typing import Vector
from levelprox.certificate import Certificate, certify
from levelprox.estimators._claims import (
    NULL_TOLERANCE,
    RELATIVE_TOLERANCE,
    Claim,
    Claims,
    RecomputedFit,
    close,
    data_of,
    task_of,
)
from levelprox.estimators._fit import Task
from levelprox.estimators._subset_claims import SubsetClaims
from levelprox.exceptions import ConvergenceWarning, InvalidInputError
from levelprox.problem import Problem
from levelprox.report.fitted import check_ours
from levelprox.result import CUT_SHORT, Status


def certify_model(
    model: Any,
    X: object,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    prove: bool = False,
    **more: ArrayLike | None,
) -> Claims:
    """Recompute the claims of a fitted model from the data, and compare.

    Parameters
    ----------
    model : SparseClassifier, SparseRegressor, SparseClassifierCV or SparseRegressorCV
        Fitted or loaded.
    X, y, sample_weight
        The data of the fit. With other data of the same features and classes the claims do not hold.
    prove : bool, default=False
        Whether to refit with every further feature and to examine all swaps again, at any cost. By default swaps are
        not examined again, and only as many further features as take little time.
    **more
        `offset` and `exposure`, as in `fit`.

    Returns
    -------
    Claims
        `claims.hold` is True if every examined claim holds, `claims.not_examined` lists the others, `print(claims)`
        shows both.

    Raises
    ------
    InvalidInputError
        If the data do not match the model, or it has no certificate, as after `partial_fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import SparseRegressor, certify_model
    >>> X = np.random.default_rng(0).standard_normal((60, 10))
    >>> y = X[:, 0] - X[:, 1]
    >>> model = SparseRegressor(n_features=2).fit(X, y)
    >>> certify_model(model, X, y).hold, certify_model(model, X, y + X[:, 2]).hold
    (True, False)
    """
    check_ours("certify_model", model)
    check_is_fitted(model)
    if not hasattr(model, "certificate_"):
        raise InvalidInputError("a model fitted from a stream claims nothing: it has no certificate to recompute")
    samples = data_of(model, "certify_model", X, y, sample_weight, more)
    known = getattr(model, "data_fingerprint_", None)
    differences = None if known is None else known.differences(samples.fingerprint())
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the figures say it
        task, scale = task_of(model, samples)
        if hasattr(model, "constraint_"):
            figures = LevelClaims(model, task).claims()
        else:
            figures = SubsetClaims(model, task).claims(prove)
    return Claims((*figures, _scale_claim(model, scale), *_claims_of_the_run(model)), differences)


def _scale_claim(model: Any, scale: Vector) -> Claim:
    with np.errstate(over="ignore"):
        apart = float(np.max(np.abs(model.scale_ / scale - 1), initial=0.0))
    found = f"within {apart:.1e}" if apart else "the same"
    return Claim("scale_ of the columns", "deviations of X", found, apart <= RELATIVE_TOLERANCE)


def _claims_of_the_run(model: Any) -> list[Claim]:
    """List the claims about the run itself and the choice of the budget."""
    names = ["message_, history_, n_iter_"]
    if hasattr(model, "cv_results_"):
        names.append("cv_results_, best_score_")
    return [Claim(name, "of the run", None, None) for name in names]


_MULTIPLIER_FACTOR = 1e3  # times what is allowed of a residual
_KINKED_MULTIPLIER = 1e-3  # where the loss has kinks
_DUAL_BOUND = 1e-6
_SUBGRADIENT_SECONDS = 60.0  # for the best subgradient, where the loss has kinks

#: Figures that have a row of their own below; any other is listed as not examined.
_COMPARED = {
    *("kkt", "psi", "g", "level", "slack", "infeasibility", "multiplier", "stationarity", "stationarity_squared"),
    *("complementarity", "scale", "active", "n_nonzero", "degenerate_distance", "degenerate_check", "dual_bound"),
    *("gradient_error", "near_epsilon", "near_delta", "possible_gain"),
}
#: Claims about the null fit, which a limit may have ended.
_OF_THE_NULL_FIT = {"scale of the gradient", "bound on y"}
#: Claims that are not made where a limit left no time for a gradient.
_OF_A_GRADIENT = {
    *("KKT residual", "possible gain", "stationarity", "stationarity²", "multiplier y", "complementarity"),
    *("scale of the gradient", "bound on y"),
}


class LevelClaims(RecomputedFit):
    """Claims of a fit under a level."""

    def __init__(self, model: Any, task: Task) -> None:
        weight, signs = task.feature_weight, task.positive
        self.problem: Problem
        super().__init__(model, task, Problem(task.objective, model.constraint_, model.level_, weight, signs))

    def claims(self) -> list[Claim]:
        """Return one claim for each figure."""
        claimed: Certificate = self.model.certificate_
        found = self._figures()
        if self.model.status_ not in CUT_SHORT:
            return found
        if not claimed.examined:
            return [replace(one, claimed=None, holds=None) if one.name in _OF_A_GRADIENT else one for one in found]
        if not any(one.holds is False and one.name in _OF_A_GRADIENT for one in found):
            return found
        self.null = self.null_of_the_run(claimed.scale)
        found = self._figures()
        if not claimed.n_nonzero:
            return found
        return [replace(one, holds=None) if one.name in _OF_THE_NULL_FIT else one for one in found]

    def _figures(self) -> list[Claim]:
        claimed: Certificate = self.model.certificate_
        ours, theirs = self.model.constraint_, self.task.constraint
        found = certify(self.problem, self.x, self.null, seconds=_SUBGRADIENT_SECONDS)
        allowed = self.residual_tolerance(np.finfo(np.float64).eps)
        g = min(found.g, self.problem.constraint.value(self.problem.sizes(self.x), self.problem.weights))
        within_level = g <= claimed.level and claimed.infeasibility == 0  # signs have a separate row
        return [
            self.psi_claim(claimed.psi),
            Claim("constraint g", claimed.g, found.g, close(found.g, claimed.g, claimed.level) and within_level),
            Claim("level η", claimed.level, self.model.level_, claimed.level == self.model.level_),
            Claim("room η − g", claimed.slack, found.slack, close(found.slack, claimed.slack, claimed.level)),
            *self.sign_claims(),
            Claim("features", claimed.n_nonzero, found.n_nonzero, claimed.n_nonzero == found.n_nonzero),
            self._kkt_claim(claimed, found, allowed),
            self._possible_gain_claim(claimed, found, allowed),
            *self._stationarity_claims(claimed, found, allowed * claimed.scale),
            self._multiplier_claim(claimed, found, allowed),
            self._complementarity_claim(claimed, found, allowed),
            *self._neighbour_claims(claimed),
            self._scale_claim(claimed),
            self._degenerate_claim(claimed, found),
            self._dual_bound_claim(claimed, found),
            Claim("error of the gradient", claimed.gradient_error, found.gradient_error, claimed.gradient_error == 0),
            Claim("constraint", repr(ours), repr(theirs), _same_numbers(ours, theirs)),
            self._status_claim(found, allowed),
            *self.other_claims(_COMPARED),
        ]

    def _kkt_claim(self, claimed: Certificate, found: Certificate, allowed: float) -> Claim:
        """Compare the residual, which a solved fit has within tol.

        Version 0.1 measured it in other units: there a larger one is no contradiction.
        """
        enough = math.isfinite(claimed.kkt)
        if self.model.status_ is Status.SOLVED:
            enough = claimed.kkt <= self.model.tol + self._float32_tolerance()
        holds: bool | None = enough and found.kkt <= claimed.kkt + allowed
        if enough and not holds and _is_of_version_0_1(claimed):
            holds = None
        return Claim("KKT residual", claimed.kkt, found.kkt, holds)

    def _possible_gain_claim(self, claimed: Certificate, found: Certificate, allowed: float) -> Claim:
        """Compare the possible gain, up to the effect of rounded coefficients on residuals and ψ."""
        if claimed.possible_gain is None or found.possible_gain is None:
            return Claim("possible gain", claimed.possible_gain, None, None)
        of_residuals = (allowed * claimed.scale) ** 2 / self.problem.objective.curvature
        most = 2 * claimed.possible_gain + NULL_TOLERANCE * abs(self.null.psi) + self.x.size * of_residuals
        return Claim("possible gain", claimed.possible_gain, found.possible_gain, found.possible_gain <= most)

    def _scale_claim(self, claimed: Certificate) -> Claim:
        """Compare the scale of residuals; in version 0.1 it is the largest derivative at the null fit."""
        found = self.null.scale
        if _is_of_version_0_1(claimed) and not close(found, claimed.scale, claimed.scale):
            assert self.null.gradient is not None
            found = float(np.max(self.problem.sizes(self.null.gradient), initial=0.0))
        return Claim("scale of the gradient", claimed.scale, found, close(found, claimed.scale, claimed.scale))

    def _float32_tolerance(self) -> float:
        """Return the difference between a fit in float64 and its coefficients in float32, those of certificate_."""
        kind = self.model.coef_.dtype
        return 0.0 if kind == np.float64 else self.residual_tolerance(float(np.finfo(kind).eps))

    def _stationarity_claims(self, claimed: Certificate, found: Certificate, allowed: float) -> list[Claim]:
        """Compare dist∞ and dist₂²; where kinks leave a choice of subgradients, with what the residual allows."""
        most = claimed.kkt * claimed.scale * (1 + RELATIVE_TOLERANCE)
        bound = claimed.stationarity if self.problem.objective.smooth else most
        largest = found.stationarity <= bound + allowed and claimed.stationarity <= most
        # dist₂ is in the units of x: more than dist∞ by the size of the largest column, too.
        scale = self.problem.objective.feature_scale
        size = math.sqrt(self.x.size) * (1.0 if scale is None else scale.largest)
        length = math.sqrt(claimed.stationarity_squared) if self.problem.objective.smooth else size * most
        squared = math.sqrt(found.stationarity_squared) <= length + size * allowed
        longest = size * claimed.stationarity * (1 + RELATIVE_TOLERANCE)
        squared = squared and math.sqrt(claimed.stationarity_squared) <= longest
        return [
            Claim("stationarity", claimed.stationarity, found.stationarity, largest),
            Claim("stationarity²", claimed.stationarity_squared, found.stationarity_squared, squared),
        ]

    def _multiplier_claim(self, claimed: Certificate, found: Certificate, allowed: float) -> Claim:
        """Compare the multiplier; where the loss has kinks it depends on which subgradient is found."""
        ours, theirs = found.multiplier, claimed.multiplier
        right = close(ours, theirs, max(abs(ours), abs(theirs)), self._multiplier_tolerance(allowed))
        unit = max(abs(theirs), self.null.scale / self.problem.constraint.lam)
        apart = abs(self.model.multiplier_ - theirs)
        same = apart <= _MULTIPLIER_FACTOR * self._float32_tolerance() * unit
        return Claim("multiplier y", theirs, ours, right and same and claimed.active == (theirs > 0))

    def _complementarity_claim(self, claimed: Certificate, found: Certificate, allowed: float) -> Claim:
        """Compare y |g − η|, in which y is off by as much as above, and g by as much as g."""
        ours, theirs = found.complementarity, claimed.complementarity
        tolerance = self._multiplier_tolerance(allowed) * max(ours, theirs)
        tolerance += RELATIVE_TOLERANCE * claimed.multiplier * claimed.level
        return Claim("complementarity", theirs, ours, abs(ours - theirs) <= tolerance < math.inf)

    def _multiplier_tolerance(self, allowed: float) -> float:
        return _MULTIPLIER_FACTOR * allowed if self.problem.objective.smooth else _KINKED_MULTIPLIER

    def _neighbour_claims(self, claimed: Certificate) -> list[Claim]:
        """Check what can be checked of an (ε, δ)-KKT point near x: that point is not stored."""
        if claimed.near_epsilon is None and claimed.near_delta is None:
            return []
        epsilon, at_x = claimed.near_epsilon, max(claimed.stationarity_squared, claimed.complementarity)
        possible = epsilon is not None and 0 <= epsilon < at_x and 0 <= claimed.delta < math.inf
        words = f"ε = {claimed.epsilon:.2e}, δ = {claimed.delta:.2e}"
        return [Claim("(ε, δ)-KKT", words, None, None if possible else False)]

    def _degenerate_claim(self, claimed: Certificate, found: Certificate) -> Claim:
        ours, theirs = found.degenerate_distance, claimed.degenerate_distance
        near = ours is theirs if ours is None or theirs is None else close(ours, theirs, max(1.0, abs(ours)))
        same = claimed.degenerate_check == found.degenerate_check and near
        words = [one.degenerate_check if at is None else at for one, at in ((claimed, theirs), (found, ours))]
        return Claim("degenerate levels", words[0], words[1], same)

    def _dual_bound_claim(self, claimed: Certificate, found: Certificate) -> Claim:
        """Compare the bound, a quotient whose denominator is known to within the tolerance of g."""
        ours, theirs = found.dual_bound, claimed.dual_bound
        fall, size = self.null.psi - self.psi, max(abs(ours), abs(theirs))
        error = RELATIVE_TOLERANCE * (abs(self.null.psi) + claimed.level * size)  # of the numerator
        if ours == theirs or not math.isfinite(size) or error >= fall:  # in the last case it is rounding error alone
            return Claim("bound on y", theirs, ours, True if ours == theirs else False if error < fall else None)
        return Claim("bound on y", theirs, ours, close(ours, theirs, size, _DUAL_BOUND + error / fall))

    def _status_claim(self, found: Certificate, allowed: float) -> Claim:
        """Check that a solved fit is: other statuses cannot be checked from the data."""
        status, enough = self.model.status_, self.model.tol + allowed + self._float32_tolerance()
        if status is not Status.SOLVED:
            return Claim("status", str(status), None, None)
        within: bool | None = found.kkt <= enough
        if not within and _is_of_version_0_1(self.model.certificate_):
            return Claim("status", str(status), None, None)
        return Claim("status", str(status), f"residual {'within' if within else 'above'} tol", within)


def _is_of_version_0_1(claimed: Certificate) -> bool:
    """Return whether residuals were measured in the units of x: there was no possible gain, either."""
    return claimed.possible_gain is None


def _same_numbers(claimed: Any, found: Any) -> bool:
    """Return whether two constraints are of one kind, and their numbers agree."""
    if type(claimed) is not type(found):
        return False
    ours, theirs = asdict(claimed), asdict(found)
    return all(_agree(ours[key], theirs[key]) for key in ours)


def _agree(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_agree(one[key], other[key]) for key in one)
    return one == other or (isinstance(one, float) and isinstance(other, float) and close(one, other, one))

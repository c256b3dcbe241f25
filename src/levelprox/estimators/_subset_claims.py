"""Recompute the claims of a fit with at most k features: every figure of its `SubsetCertificate`.

The claim that no further feature gains more is recomputed by refits: of all features outside the model, or, where that
is much work, of those with the largest gradients relative to the size of their columns. How many were refitted is part
of the answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from levelprox._best_subset import best_subset
from levelprox._typing import Features
from levelprox.certificate.null_model import relative_stationarity
from levelprox.constraints.costs import Costs
from levelprox.estimators._claims import NULL_TOLERANCE, Claim, RefittableFit
from levelprox.estimators._features import FeatureNames
from levelprox.estimators._fit import Task
from levelprox.objectives import Model
from levelprox.result import CUT_SHORT, Status
from levelprox.subset.nonsmooth_refit import ExactFit
from levelprox.subset.result import SubsetCertificate, Swaps

_GAIN_TOLERANCE = 1e-6  # of psi: what a refit may miss of a gain
_SWAP_TOLERANCE = 1e-9  # of psi: less is not an improvement
_SOLVED_FACTOR = 100  # times the tolerance of the search: the largest stationarity that is called solved
_SOLVED_FLOOR = 1e-12
_REFIT_SECONDS = 60.0  # for one refit, where the loss has kinks
_REFIT_WORK = 10**9  # multiplications of all refits, without `prove`
_LAST_ULPS = 32.0  # of psi: what the rounding of its sum hides
_PERFECT_ULPS = 4.0  # times the rounding of an exact fit

#: Figures that have a row of their own below; any other is listed as not examined.
_COMPARED = {
    *("psi", "n_nonzero", "k", "stationarity", "swaps", "multiplier", "addition", "additions"),
    *("addition_name", "spent", "budget"),
}


@dataclass(frozen=True)
class _Additions:
    """Gains of single further features, by refits.

    Attributes
    ----------
    gain, feature : float, int or None
        The largest, and whose it is.
    claimed_gain : float
        Of the feature that the model names; 0 where it names none.
    claimed_most : float
        What that feature gains at most; more than `claimed_gain` where its refit is not known to be optimal.
    refitted, total : int
    names : FeatureNames
    """

    gain: float
    feature: int | None
    claimed_gain: float
    claimed_most: float
    refitted: int
    total: int
    names: FeatureNames

    def __str__(self) -> str:
        best = "none gains" if self.feature is None else f"{self.names.called(self.feature)} gains {self.gain:.6g}"
        return f"{best}; {self.refitted} of {self.total} refitted"


class SubsetClaims(RefittableFit):
    """Claims of a fit of at most k features."""

    def __init__(self, model: Any, task: Task) -> None:
        super().__init__(model, task, int(model.level_))
        self.costs: Costs | None = None
        if task.feature_cost is not None:
            size, own = self.problem.n_features, self.problem.objective.unpenalized
            self.costs = Costs.of(task.feature_cost, model.budget_, size, own, self.problem.unpenalized)

    def claims(self, prove: bool) -> list[Claim]:
        """Return one claim for each figure; `prove` refits all further features and examines all swaps."""
        claimed: SubsetCertificate = self.model.certificate_
        count = self.counted.size
        stationarity = self._stationarity_claim(claimed.stationarity)
        return [
            self.psi_claim(claimed.psi),
            Claim("features", claimed.n_nonzero, count, count == claimed.n_nonzero and count <= claimed.k),
            Claim("at most k", claimed.k, int(self.model.level_), claimed.k == self.model.level_),
            *self._cost_claims(claimed),
            *self.sign_claims(),
            stationarity,
            *self._gain_claims(claimed, prove),
            self._swap_claim(claimed, prove),
            self._status_claim(stationarity),
            *self.other_claims(_COMPARED),
        ]

    def _cost_claims(self, claimed: SubsetCertificate) -> list[Claim]:
        """Compare what the features cost, by an exact sum, and the budget."""
        if self.costs is None:
            return []
        chosen = self.counted.tolist()
        spent = self.costs.spent(chosen)
        return [
            Claim("cost", claimed.spent, spent, spent == claimed.spent and self.costs.allows(chosen)),
            Claim("budget", claimed.budget, self.model.budget_, claimed.budget == self.model.budget_),
        ]

    def _stationarity_claim(self, claimed: float) -> Claim:
        """Compare dist∞(0, ∂ψ) over the features of the fit; with kinks or float32, see what a refit gains."""
        if math.isinf(claimed) and self.model.status_ in CUT_SHORT:  # a limit left no time for it
            return Claim("stationarity", None, None, None)
        rounded = self.model.coef_.dtype == np.float32  # it was measured before coefficients were rounded
        if rounded or not self.problem.objective.smooth:  # off the kinks slopes say nothing
            left = self.psi - self._refitted(self.own)
            holds: bool | None = left <= self._gain_tolerance()
            if not holds and self.model.status_ in CUT_SHORT and claimed > self._solved_stationarity():
                holds = None  # stationarity is not claimed, and the gain of a refit does not determine it
            if holds and left > self._agreement():
                holds = None  # what rounding hides is neither refuted nor confirmed
            return Claim("stationarity", claimed, f"loss within {max(left, 0.0):.1e}", holds)
        largest = relative_stationarity(self.problem, self.x, self.own, self.null)
        allowed = self.residual_tolerance(float(np.finfo(np.float64).eps))
        if largest > claimed + allowed and self.model.status_ in CUT_SHORT:
            largest = relative_stationarity(self.problem, self.x, self.own, self.null_of_the_run())
        if largest > claimed + allowed and math.isfinite(
            claimed
        ):  # products may cancel in margins: then it is rounding
            left = max(self.psi - self._refitted(self.own), 0.0)
            if left <= self._rounding_of_psi + _LAST_ULPS * float(np.finfo(np.float64).eps) * abs(self.psi):
                return Claim("stationarity", claimed, f"{largest:.10g}, loss within {left:.1e}", True)
        return Claim("stationarity", claimed, largest, largest <= claimed + allowed < math.inf)

    def _status_claim(self, stationarity: Claim) -> Claim:
        """Check that a solved fit is stationary: other statuses cannot be checked from the data."""
        status = self.model.status_
        if status is not Status.SOLVED or stationarity.holds is None:
            return Claim("status", str(status), None, None)
        within = bool(stationarity.holds) and self.model.certificate_.stationarity <= self._solved_stationarity()
        return Claim("status", str(status), "stationary" if within else "not stationary", within)

    def _solved_stationarity(self) -> float:
        return float(max(_SOLVED_FACTOR * self.tol, _SOLVED_FLOOR))

    def _refitted(self, features: Features) -> float:
        """Return ψ minimised over these features, begun at the model."""
        return self._refitted_and_bounded(features)[0]

    def _refitted_and_bounded(self, features: Features) -> tuple[float, float]:
        """Return ψ minimised over these features, and what it is at least; −inf where that is not known."""
        fit = self.fitted(features, lambda: _REFIT_SECONDS)
        if isinstance(fit, ExactFit):
            return fit.psi, fit.psi - fit.error
        return fit.psi, max(fit.lower_bound, self.problem.objective.infimum)

    def _agreement(self, gain: float = 0.0) -> float:
        """Return by how much two figures of a gain may differ that are called the same."""
        infimum = self.problem.objective.infimum
        null = max(abs(self.null.psi), self.null.psi - infimum if math.isfinite(infimum) else 0.0)
        return _GAIN_TOLERANCE * (abs(self.psi) + abs(gain)) + NULL_TOLERANCE * null

    def _gain_tolerance(self, gain: float = 0.0) -> float:
        """Return by how much the figures of a correct fit may differ: by rounding, and where it diverges."""
        tolerance = self._agreement(gain)
        if self.model.status_ is Status.DIVERGING:  # larger coefficients gain all that is left
            tolerance += max(self.psi - self.problem.objective.infimum, 0.0)
        return tolerance + self._rounding_of_psi + self._rounding_of_exact_fit

    @cached_property
    def _rounding_of_exact_fit(self) -> float:
        """Return the rounding of ψ where ψ is no larger, so that a search takes the fit for exact; else 0."""
        if self.problem.objective.smooth:
            rounding = self._rounding_by_curvature()
        else:
            rounding = _PERFECT_ULPS * self.exact_refits(self.own, self.fit, lambda: _REFIT_SECONDS).rounding
        return rounding if self.psi <= rounding < math.inf else 0.0

    def _gain_claims(self, claimed: SubsetCertificate, prove: bool) -> list[Claim]:
        """Compare what one more feature gains, and whether it is the best one."""
        gain, best = "one more would gain", "best addition"
        if math.isnan(claimed.multiplier):  # a limit ended the fit before this was examined
            nothing = math.isnan(self.model.multiplier_) and claimed.addition is None
            return [Claim(gain, None, None, None if nothing else False)]
        if self.model.multiplier_ != claimed.multiplier:
            return [Claim(gain, claimed.multiplier, f"multiplier_ = {self.model.multiplier_:.10g}", False)]
        if claimed.addition is None and claimed.multiplier != 0:
            return [Claim(gain, claimed.multiplier, "no feature is named", False)]
        if claimed.addition is not None and claimed.addition not in self._outside():
            return [Claim(gain, claimed.multiplier, f"feature {claimed.addition} cannot be added", False)]
        found = self._additions(claimed.addition, prove)
        named = "no feature" if claimed.addition is None else found.names.called(claimed.addition)
        if claimed.addition_name is not None and named != repr(claimed.addition_name):
            return [Claim(best, repr(claimed.addition_name), named, False)]
        tolerance = self._gain_tolerance(found.gain)
        is_best = self._is_best(claimed, found, tolerance)
        if claimed.addition is None:
            return [Claim(gain, claimed.multiplier, found.gain, is_best), Claim(best, named, str(found), is_best)]
        apart = abs(found.claimed_gain - claimed.multiplier)
        right: bool | None = apart <= tolerance < math.inf
        additions: Swaps | None = getattr(claimed, "additions", None)
        more = found.claimed_gain > claimed.multiplier and additions is not None and not additions.proved
        possible = found.claimed_gain < claimed.multiplier <= found.claimed_most + tolerance
        if not right and (more or possible or not self._is_convex()):
            right = None  # refits that are not known to be optimal may end at another minimum
        if right and apart > self._agreement(found.gain):
            right = None
        return [Claim(gain, claimed.multiplier, found.claimed_gain, right), Claim(best, named, str(found), is_best)]

    def _is_best(self, claimed: SubsetCertificate, found: _Additions, tolerance: float) -> bool | None:
        """Return whether no feature gains more than claimed; None where not all were refitted or rounding hides it."""
        additions: Swaps | None = getattr(claimed, "additions", None)
        if additions is not None and additions.total not in self._addition_totals():
            return False
        if found.gain > claimed.multiplier + tolerance:  # only of a claim about all features is this a contradiction
            return False if self._is_convex() and (additions is None or additions.proved) else None
        if found.gain > claimed.multiplier + self._agreement(found.gain):
            return None
        return True if found.refitted == found.total else None

    def _addition_totals(self) -> set[int]:
        """Return how many features the fit may have had outside: coefficients of some inside may be 0."""
        outside = self._outside().size
        if self.costs is not None:  # there is no feature inside whose coefficient is 0
            return {outside}
        unused = max(int(self.model.level_) - self.counted.size, 0)
        return set(range(max(outside - unused, 0), outside + 1))

    def _is_convex(self) -> bool:
        return cast(Model, self.problem.objective).convex_start is None

    def _outside(self) -> Features:
        """Return the features that can be added to the model: with costs, those that its budget allows."""
        if self.costs is not None:
            return np.flatnonzero(self.costs.affordable(self.own)).astype(np.intp)
        return np.setdiff1d(np.arange(self.problem.n_features), self.own).astype(np.intp)

    def _additions(self, named: int | None, prove: bool) -> _Additions:
        """Refit with each further feature, the most promising and the named one first."""
        outside, names = self._outside(), FeatureNames.of(self.model, self.model.n_features_in_)
        size = cast(Model, self.task.objective).column_magnitudes()[:: self.problem.n_outputs][outside]
        slope = self.problem.sizes(self.gradient)[outside]
        promise = np.where(size > 0, slope / np.where(size > 0, size, 1.0), 0.0)
        ordered = outside[np.lexsort((outside, -promise, outside != (-1 if named is None else named)))]
        most = ordered.size if prove else self.refits_within(_REFIT_WORK)
        best: tuple[float, int | None] = (0.0, None)
        claimed = claimed_most = 0.0
        for j in ordered[:most].tolist():
            psi, least = self._refitted_and_bounded(np.union1d(self.own, [j]).astype(np.intp))
            best = max(best, (self.psi - psi, j), key=lambda pair: pair[0])
            if j == named:
                claimed, claimed_most = self.psi - psi, self.psi - least
        return _Additions(*best, claimed, claimed_most, min(most, ordered.size), ordered.size, names)

    def _swap_claim(self, claimed: SubsetCertificate, prove: bool) -> Claim:
        """Examine swaps again on request; else only their number."""
        name, said = "swaps", str(claimed.swaps)
        least, most = self.counted.size, int(self.model.level_)
        free = self.task.standardization.scale.size - (0 if self.task.keep is None else self.task.keep.size)
        totals = {inside * (free - inside) for inside in range(least, min(most, free) + 1)}  # some may be in it and 0
        if self.costs is not None:
            totals = {self.costs.count_swaps(self.own, self.counted)}
        uncounted = replace(claimed.swaps, within_budget=False) == Swaps(0, 0)
        if uncounted and 0 not in totals and self.model.status_ is not Status.SOLVED:
            return Claim(name, None, None, None)  # the search was cut short before it counted them
        if claimed.swaps.total not in totals or not 0 <= claimed.swaps.examined <= claimed.swaps.total:
            there = least * (free - least) if self.costs is None else max(totals)
            return Claim(name, said, f"there are {there}", False)
        if not prove:
            return Claim(name, said, None, None)
        start = min(self.psi, self._refitted(self.own))
        found = best_subset(
            self.task.objective,
            least,
            feature_cost=self.task.feature_cost,
            budget=None if self.costs is None else self.costs.budget,
            keep=self.task.keep,
            nonnegative=self.task.positive,
            tol=self.tol,
            prove=True,
            start=self.counted,
        )
        another = not np.array_equal(found.support, self.counted)  # the same features fitted again are no swap
        tolerance = _SWAP_TOLERANCE * abs(start) + NULL_TOLERANCE * abs(self.null.psi)
        if another and found.psi < start - tolerance:
            beyond_rounding = found.psi < start - tolerance - self._rounding_of_psi
            words = f"swaps lower the loss to {found.psi:.10g}"
            return Claim(name, said, words, False if claimed.swaps.proved and beyond_rounding else None)
        return Claim(name, said, str(found.swaps), True if found.swaps.proved else None)

"""At most k features: min ψ(x) over all x with at most k nonzero features.

As the threshold of MCP shrinks, g/cap tends to the number of nonzeros, so continuation in the threshold, at the level
(k + ½) cap, leads to a set of k features. Several such sets are found:

- at every stage of the continuation, over columns scaled to equal curvature, the k largest;
- by taking in up to 2k features one by one, the most useful first, and leaving out the least useful again;
- for a few features the same without the most useful one, which then decides too much;

each is refitted, and the best of either kind improved by exchanges of one feature for another, as long as ψ falls. What
comes back is a set that no exchange improves, as far as `Exchanges` says that this was shown.

Everything is a function of ψ, k and the features to be kept alone: no randomness, and no use of answers for other k.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levelprox.constraints import MCP
from levelprox.continuation import continued
from levelprox.errors import InvalidInputError
from levelprox.exchange import costs
from levelprox.forward import FEW, forward
from levelprox.null_fit import NullFit, null_fit
from levelprox.objectives import Model, Objective
from levelprox.problem import Problem
from levelprox.refit import Fit, lowest
from levelprox.restriction import How
from levelprox.result import Iterate, Status
from levelprox.subsolvers import Newton
from levelprox.surrogate import surrogate_by_name
from levelprox.swaps import Swaps
from levelprox.validation import nonnegative as at_least_zero
from levelprox.validation import whole

Vector = NDArray[np.float64]
Features = NDArray[np.intp]

_ROUGH = 3e-3
_SMALL = 2.0**-10  # of the largest coefficient: the last threshold
_REACHES = 2.0 ** (np.arange(-4, 11) / 2)  # median margins from which descents along a ray begin


@dataclass(frozen=True)
class Exchanges:
    """How far it is shown that no exchange of one feature for another lowers ψ.

    Attributes
    ----------
    examined : int
        Exchanges for which it is: ruled out by a bound, or tried.
    total : int
        All there are: features in the set times features outside.
    """

    examined: int
    total: int

    @property
    def proved(self) -> bool:
        """Whether no exchange at all lowers ψ, as exactly as `tol` has each set fitted.

        Where columns are equal but for their sixth digit, a gradient within tol may leave some 1e-5 of ψ to gain.
        """
        return self.examined == self.total

    def __str__(self) -> str:
        which = f"any of the {self.total}" if self.proved else f"the {self.examined} most promising of {self.total}"
        return f"not improved by {which} exchanges of one feature for another"


@dataclass(frozen=True, eq=False)
class Subset:
    """The best set of at most k features that was found, and the fit over it.

    Attributes
    ----------
    x : ndarray of shape (d,)
        All coefficients; besides those of features that are kept in any case, at most k features are not zero.
    psi : float
        ψ(x).
    support : ndarray of int
        The features that count and are not zero.
    k : int
        What was asked for.
    multiplier : float
        What one more feature would gain: ψ(x) less ψ refitted with the best single addition that was found.
    addition : int or None
        That feature; None where there is none that gains.
    exchanges : Exchanges
        What is shown of exchanges.
    stationarity : float
        The largest |∂ψ/∂x_j| over the features of the fit, relative to the null fit's.
    status : Status
    message : str
    n_grad : int
        Passes over all features.
    n_refits : int
        Fits over a few features.
    wall_s : float
        Seconds of wall-clock time.
    """

    x: Vector
    psi: float
    support: Features
    k: int
    multiplier: float
    addition: int | None
    exchanges: Exchanges
    stationarity: float
    status: Status
    message: str
    n_grad: int = 0
    n_refits: int = 0
    wall_s: float = 0.0

    @property
    def success(self) -> bool:
        """Whether the search came to its end."""
        return self.status.success

    def __repr__(self) -> str:
        return f"Subset({self.status}: psi={self.psi:.6g}, {self.support.size} features, {self.exchanges})"


def best_subset(
    objective: Objective,
    k: int,
    *,
    keep: ArrayLike | None = None,
    nonnegative: bool | NDArray[np.bool_] | None = None,
    tol: float = 1e-8,
    prove: bool = False,
    time_limit: float | None = None,
) -> Subset:
    """Minimise ψ(x) over all x with at most k nonzero features, and say how far no exchange improves the answer.

    Parameters
    ----------
    objective : LinearModel or MultinomialModel
        ψ, with a differentiable loss. Its own intercept never counts. Where a feature has a coefficient for each
        class, it counts once.
    k : int
        How many features may be nonzero.
    keep : array-like of int or bool, optional
        Features, by index or mask, that are always in the fit and never count.
    nonnegative : bool or array-like of bool, optional
        Which coordinates must not be negative, as in `Problem`.
    tol : float, default=1e-8
        How well each set is fitted: on ‖∇ψ‖∞ over its features, relative to that of the null fit.
    prove : bool, default=False
        Whether to examine all exchanges whatever that takes. By default all are where there are at most 1e5 and the
        refits that bounds leave to do are not much work; else as many as are, and at least the 50 most promising ones.
        For the squared loss all are always.
    time_limit : float, optional
        Seconds of wall-clock time; the best set by then is returned.

    Returns
    -------
    Subset

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import LinearModel, best_subset
    >>> X = np.random.default_rng(0).standard_normal((100, 30))
    >>> b = X[:, 3] - 2 * X[:, 7]
    >>> best_subset(LinearModel(X, b), 2).support.tolist()
    [3, 7]
    """
    if not isinstance(objective, Model) or not objective.curved:
        raise InvalidInputError(
            "best_subset needs a LinearModel or MultinomialModel with a differentiable loss; for others, solve with a "
            "constraint of small threshold at level (k + 1/2) * cap"
        )
    count = whole("k", k)
    seconds = math.inf if time_limit is None else at_least_zero("time_limit", time_limit)
    weights = _weights(objective, keep)
    problem = Problem(objective, MCP.from_threshold(1.0), count + 0.5, weights, nonnegative)
    return _Search(problem, count, at_least_zero("tol", tol), seconds, bool(prove))()


def _weights(objective: Model, keep: ArrayLike | None) -> Vector | None:
    if keep is None:
        return None
    n_features = objective.dimension // objective.width
    chosen = np.asarray(keep)
    mask = chosen.dtype == np.bool_
    counted = n_features - objective.exempt.size
    if chosen.ndim != 1 or (mask and chosen.size not in (n_features, counted)):
        raise InvalidInputError(f"keep must be a list of features or a mask of all {counted}, got shape {chosen.shape}")
    if not mask and (chosen.dtype.kind not in "iu" and chosen.size):
        raise InvalidInputError(f"keep must be integers or booleans, got dtype {chosen.dtype}")
    places = np.flatnonzero(chosen) if mask else chosen.astype(np.intp)
    if places.size and not (places.min() >= 0 and places.max() < n_features):
        raise InvalidInputError(f"keep must be within 0..{n_features - 1}, got {places.min()}..{places.max()}")
    weights = np.ones(n_features)
    weights[places] = 0.0
    return weights


@dataclass(eq=False)
class _Search:
    """One search: what is known, and what it cost."""

    problem: Problem
    k: int
    tol: float
    seconds: float
    prove: bool
    began: float = field(default_factory=time.monotonic)

    def __call__(self) -> Subset:
        problem = self.problem
        self.objective = cast(Model, problem.objective)
        self.null = null_fit(problem, self._left())
        exempt = problem.exempt
        start = Fit(exempt, self.null.x[problem.coordinates(exempt)], self.null.psi, self._margins(exempt))
        self.swaps = Swaps(problem, start, self.null, self.tol * self.null.scale, self._how(), self.prove)
        self.swaps.n_grad = 2 if exempt.size else 1
        counted = np.setdiff1d(np.arange(problem.n_features), exempt)
        examined, status = 0, Status.SOLVED
        try:
            if counted.size <= self.k:
                self.swaps.keep(self.swaps.fitted(np.arange(problem.n_features)))
            elif self.k > 0 or self.objective.convex_start is not None:
                for start in self._starts():
                    self.swaps.keep(self.swaps.improved(start))
                if self.objective.convex_start is not None:
                    self.swaps.keep(self._along_its_ray(self.swaps.best, self.swaps.best))
                examined = self.swaps.examined()
        except TimeoutError:
            status = Status.TIME_LIMIT
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        return self._subset(examined, status)

    def _starts(self) -> Iterator[Fit]:
        """Sets of k features from which exchanges begin."""
        null, problem = self.swaps.best, self.problem
        convex = self.objective.convex_start
        if convex is not None:
            yield from self._by_convex_start(null, convex)
        counted = problem.n_features - problem.exempt.size
        chosen = forward(self.swaps, null, min(2 * self.k, counted, max(self.k, self.objective.n_margins - 1)))
        first = self.swaps.fitted(self._with_exempt(chosen[: self.k]))
        self.swaps.keep(first)
        if self.swaps.is_perfect(first):
            return
        yield self._best_on_the_way(first)
        yield self._backward(chosen)
        yield first
        if chosen.size and self.k <= FEW:
            chosen = forward(self.swaps, null, self.k, without=int(chosen[0]))
            yield self.swaps.fitted(self._with_exempt(chosen))

    def _by_convex_start(self, null: Fit, convex: Model) -> Iterator[Fit]:
        """The fits of exempt features alone, and of the answer for the convex loss that this one starts from."""
        yield self.swaps.fitted(null.features, null)
        problem = replace(self.problem, objective=convex)
        search = _Search(problem, self.k, self.tol, self._left(), prove=False)
        if search().status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        self.swaps.n_grad += search.swaps.n_grad
        self.swaps.n_refits += search.swaps.n_refits
        found = search.swaps.best
        yield self._along_its_ray(found, self.swaps.fitted(found.features, found))

    def _along_its_ray(self, ray: Fit, best: Fit) -> Fit:
        """The best fit over the same features from any point of a ray, where ψ may fall for ever along it.

        How far out a descent begins then decides where it ends: most samples should still pull, but some no longer.
        """
        size = 0.0 if self.objective.attained else float(np.median(np.abs(ray.margins)))
        starts = [replace(ray, x=reach / size * ray.x) for reach in _REACHES] if size > 0 else []
        fit = lowest([best, *(self.swaps.fitted(ray.features, start) for start in starts)])
        return best if fit is None or fit is best else self._along_its_ray(fit, fit)

    def _backward(self, features: Features) -> Fit:
        """Leave out the least useful feature until k are left."""
        fit = self.swaps.roughly(self._with_exempt(features), self.swaps.best)
        while fit.features.size - self.problem.exempt.size > self.k:
            features = np.delete(fit.features, int(np.argmin(costs(self.problem, fit))))
            fit = self.swaps.roughly(features, fit)
        return self.swaps.fitted(fit.features, fit)

    def _best_on_the_way(self, direct: Fit) -> Fit:
        """The best of the sets that a continuation in the threshold comes through."""
        problem, objective = self.problem, self.objective
        curvature = np.einsum("jaa->j", objective.feature_hessians_of(self._margins(problem.exempt)))
        scale = np.sqrt(np.where(curvature > 0, curvature, 1.0))
        scale[objective.exempt] = 1.0
        wide = np.repeat(scale, problem.width)
        start = Iterate(wide * self.null.x, self.null.psi, self._null_gradient() / wide)
        x = np.zeros(problem.dimension)
        x[problem.coordinates(direct.features)] = direct.x
        at = Iterate(wide * x, direct.psi, start.gradient)
        largest = float(np.max(problem.sizes(at.x)[problem.counted(direct.features)], initial=0.0))
        if not largest > 0:
            return direct
        scaled = replace(
            problem,
            objective=objective.scaled(scale),
            constraint=MCP.from_threshold(_SMALL * largest),
        )
        size = float(np.max(problem.sizes(start.gradient), initial=0.0))
        how = replace(self._how(), null=NullFit(start.x, start.psi, None, size or 1.0), gamma=self._gamma(scaled))
        best = direct
        for stage, end in continued(scaled, start, at, how, _ROUGH, count=self.k + 1):
            self.swaps.n_grad += stage.n_grad
            self.swaps.check_time()
            if end.stop == "interrupted":
                raise KeyboardInterrupt
            sizes = problem.sizes(end.x)
            counted = problem.counted(np.flatnonzero(sizes))
            largest_k = counted[np.argsort(-sizes[counted], kind="stable")[: self.k]]
            fit = self.swaps.fitted(self._with_exempt(largest_k))
            best = fit if fit.psi < best.psi else best
        return best

    def _how(self) -> How:
        surrogate = surrogate_by_name("concave")
        return How(Newton(), self._gamma(self.problem), surrogate, self.null, self._left, None)

    def _gamma(self, problem: Problem) -> float:
        return Newton().proximal_weight(problem.objective)

    def _null_gradient(self) -> Vector:
        assert self.null.gradient is not None
        return self.null.gradient

    def _margins(self, features: Features) -> Vector:
        part = self.objective.restrict(features)
        return part.margins(self.null.x[self.problem.coordinates(features)])

    def _with_exempt(self, features: Features) -> Features:
        return np.union1d(features, self.problem.exempt).astype(np.intp)

    def _left(self) -> float:
        return self.seconds - (time.monotonic() - self.began)

    def _subset(self, examined: int, status: Status) -> Subset:
        fit, multiplier, addition = self.swaps.best, 0.0, None
        try:
            if status is Status.SOLVED:
                multiplier, addition = self.swaps.best_addition()
        except TimeoutError:
            status = Status.TIME_LIMIT
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        x = np.zeros(self.problem.dimension)
        places = self.problem.coordinates(fit.features)
        x[places] = fit.x
        psi, gradient = self.objective.value_and_gradient(x)
        support = self.problem.counted(np.flatnonzero(self.problem.sizes(x)))
        exchanges = Exchanges(examined, self.swaps.total(fit))
        stationarity = self._stationarity(x[places], gradient[places], self.problem.must_be_nonnegative()[places])
        what = {
            Status.SOLVED: "Solved",
            Status.TIME_LIMIT: f"Stopped after time_limit {self.seconds:g} s",
            Status.INTERRUPTED: "Interrupted",
        }[status]
        message = f"{what}: {support.size} features of at most {self.k}, psi = {psi:.6g}; {exchanges}."
        return Subset(
            x,
            psi,
            support,
            self.k,
            multiplier,
            addition,
            exchanges,
            stationarity,
            status,
            message,
            self.swaps.n_grad + 1,
            self.swaps.n_refits,
            time.monotonic() - self.began,
        )

    def _stationarity(self, x: Vector, gradient: Vector, signs: NDArray[np.bool_]) -> float:
        held = signs & (x == 0)
        return float(np.max(np.where(held, np.maximum(-gradient, 0), np.abs(gradient)), initial=0.0)) / self.null.scale

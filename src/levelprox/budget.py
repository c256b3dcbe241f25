"""At most k features: min ψ(x) over all x with at most k nonzero features.

As the threshold of MCP shrinks, g/cap tends to the number of nonzeros, so continuation in the threshold, at the level
(k + ½) cap, leads to a set of k features. Several such sets are found:

- at every stage of the continuation, over columns scaled to equal curvature, the k largest;
- by taking in up to 2k features one by one, the most useful first, and leaving out the least useful again;

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
from levelprox.exchange import Exchange, costs, least_costs
from levelprox.null_fit import NullFit, null_fit
from levelprox.objectives import Model, Objective
from levelprox.problem import Problem
from levelprox.refit import Fit, refit
from levelprox.restriction import How
from levelprox.result import Iterate, Status
from levelprox.subsolvers import Newton
from levelprox.surrogate import surrogate_by_name
from levelprox.validation import real, whole

Vector = NDArray[np.float64]
Features = NDArray[np.intp]
Matrix = NDArray[np.float64]

_ALL = 10**5  # exchanges up to which all of them are examined
_WORK, _ONE = 10**8, 10**5  # of all refits of an examination, in n (k + 1)², and what one takes besides
_TOP = 50  # that are tried where not all of them are
_TRIES = 8  # exchanges that are tried for one that lowers ψ
_PROMISING = 0.1  # of what leaving out costs: by how much an estimate may be off
_ADDITIONS = 5  # that are tried for the best one
_LOWER = 1e-10  # of ψ: less is not an improvement
_PERFECT = 1e-9  # of ψ at the null fit: nothing is left to explain
_ROUGH = 1e-3
_REMEMBERED = 2**25  # numbers of columns of the Hessian
_SMALL = 2.0**-10  # of the largest coefficient: the last threshold


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
        """Whether no exchange at all lowers ψ."""
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
    if count < 0:
        raise InvalidInputError(f"k must be nonnegative, got {k}")
    seconds = math.inf if time_limit is None else real("time_limit", time_limit)
    weights = _weights(objective, keep)
    problem = Problem(objective, MCP.from_threshold(1.0), count + 0.5, weights, nonnegative)
    return _Search(problem, count, real("tol", tol), seconds, bool(prove))()


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


class _Tries:
    """Exchanges of a fit, tried one after another.

    Feature j is taken in first, which bounds what leaving out any i then costs; only where that is not enough, i is
    left out.
    """

    def __init__(self, search: _Search, fit: Fit) -> None:
        self.search, self.fit, self.n_refits = search, fit, 0
        self.magnitudes = search.objective.column_magnitudes()
        self.taken_in: tuple[int, Fit, Vector] | None = None

    def __call__(self, i: int, j: int) -> Fit | None:
        """The fit with feature j for the i-th one, where its ψ is lower."""
        search, fit = self.search, self.fit
        larger, costs = self._with(j)
        dropped = fit.features[i]
        enough = fit.psi - larger.psi + _LOWER * abs(fit.psi)
        if costs[np.searchsorted(larger.features, dropped)] >= enough:
            return None
        self.n_refits += 1
        new = search.fitted(np.setdiff1d(larger.features, [dropped]), larger)
        return new if search.lowers(new, fit) else None

    def _with(self, j: int) -> tuple[Fit, Vector]:
        """The fit with feature j as well, and what leaving out each of its features costs at least."""
        if self.taken_in is None or self.taken_in[0] != j:
            search = self.search
            larger = search.fitted(np.union1d(self.fit.features, [j]), self.fit)
            self.n_refits += 1
            costs = np.zeros(larger.features.size)
            if search.has_bounds():
                costs = least_costs(search.problem, larger, self.magnitudes, search.objective.concordance)
            self.taken_in = j, larger, costs
        return self.taken_in[1:]


@dataclass(eq=False)
class _Search:
    """One search: what is known, and what it cost."""

    problem: Problem
    k: int
    tol: float
    seconds: float
    prove: bool
    began: float = field(default_factory=time.monotonic)
    n_grad: int = 0
    n_refits: int = 0
    known: dict[bytes, float] = field(default_factory=dict)
    columns: dict[int, Vector] = field(default_factory=dict)
    own: Matrix | None = None

    def __call__(self) -> Subset:
        problem = self.problem
        self.objective = cast(Model, problem.objective)
        self.null = self._null_fit()
        exempt = problem.exempt
        self.best = Fit(exempt, self.null.x[problem.coordinates(exempt)], self.null.psi, self._margins(exempt))
        counted = np.setdiff1d(np.arange(problem.n_features), exempt)
        examined, status = 0, Status.SOLVED
        try:
            if counted.size <= self.k:
                self._keep(self.fitted(np.arange(problem.n_features)))
            elif self.k > 0:
                for start in self._starts():
                    self._keep(self._improved(start))
                examined = self._examined()
        except TimeoutError:
            status = Status.TIME_LIMIT
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        return self._subset(examined, status)

    # --- where the search begins

    def _null_fit(self) -> NullFit:
        null = null_fit(self.problem, self._left())
        self.n_grad += 2 if self.problem.exempt.size else 1
        return null

    def _starts(self) -> Iterator[Fit]:
        """Sets of k features from which exchanges begin."""
        forward = self._forward()
        first = self.fitted(self._with_exempt(forward[: self.k]))
        self._keep(first)
        yield self._best_on_the_way(first)
        yield self._backward(forward)
        yield first

    def _forward(self) -> Features:
        """Up to 2k features, one by one: the next gains most by the model, with the curvature of the null fit.

        What is left of each column after those before it is kept up to date as a Cholesky factorisation would:
        one product for each feature taken in, and one for the gradient there.
        """
        problem, objective = self.problem, self.objective
        fit, chosen = self.best, np.empty(0, np.intp)
        exchange = self._exchange(fit)
        z = fit.margins
        left, factors = exchange.left, list[Vector]()
        most = min(2 * self.k, problem.n_features - problem.exempt.size, max(self.k, objective.n_margins - 1))
        while chosen.size < most:
            exchange.left = left
            gain = exchange.additions()
            gain[chosen] = -np.inf
            j = int(np.argmax(gain))
            if not gain[j] > 0:
                break
            chosen = np.append(chosen, j)
            fit = self.fitted(self._with_exempt(chosen), fit)
            if self._is_perfect(fit) or chosen.size == most:
                break
            exchange.gradient = self._gradient(fit).reshape(problem.n_features, -1)
            if problem.width == 1:
                column = self._column(j, z) - exchange.B @ exchange.cross[j]
                for factor in factors:
                    column -= factor * factor[j]
                pivot = column[j]
                if pivot > 0:
                    factors.append(column / math.sqrt(pivot))
                    left = left - (factors[-1] ** 2)[:, None, None]
        return chosen

    def _column(self, j: int, z: Vector) -> Vector:
        """One column of ∇²ψ."""
        return self._columns(Fit(np.array([j], np.intp), np.zeros(1), 0.0, z))[:, 0]

    def _backward(self, features: Features) -> Fit:
        """Leave out the least useful feature until k are left."""
        fit = self.fitted(self._with_exempt(features))
        while fit.features.size - self.problem.exempt.size > self.k:
            features = np.delete(fit.features, int(np.argmin(costs(self.problem, fit))))
            fit = self.fitted(features, fit)
        return fit

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
        largest = float(np.max(problem.sizes(at.x)[self._counted(direct.features)], initial=0.0))
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
            self.n_grad += stage.n_grad
            self._check_time()
            if end.stop == "interrupted":
                raise KeyboardInterrupt
            sizes = problem.sizes(end.x)
            counted = self._counted(np.flatnonzero(sizes))
            largest_k = counted[np.argsort(-sizes[counted], kind="stable")[: self.k]]
            fit = self.fitted(self._with_exempt(largest_k))
            best = fit if fit.psi < best.psi else best
        return best

    # --- exchanges

    def _improved(self, fit: Fit) -> Fit:
        """Exchange features one for another for as long as that lowers ψ.

        All that the estimates at one fit promise is tried, the best first, before there are new ones: they cost a pass
        for each feature.
        """
        self._keep(fit)
        before = math.inf
        while not self._is_perfect(fit) and fit.psi < before:
            before, failures = fit.psi, 0
            for leaves, enters in self._promising(fit):
                if leaves not in fit.features or enters in fit.features:
                    continue
                new = self._exchanged(fit, leaves, enters)
                if new is None:
                    failures += 1
                    if failures == _TRIES:
                        break
                else:
                    fit = new
                    self._keep(fit)
        return fit

    def _exchanged(self, fit: Fit, leaves: int, enters: int) -> Fit | None:
        """The fit with one feature for another, where its ψ is lower."""
        features = np.union1d(np.setdiff1d(fit.features, [leaves]), [enters]).astype(np.intp)
        if self.known.get(features.tobytes(), -math.inf) >= fit.psi:
            return None
        new = self.fitted(features, fit)
        self.known[features.tobytes()] = new.psi
        return new if self.lowers(new, fit) else None

    def _promising(self, fit: Fit) -> list[tuple[int, int]]:
        """The exchanges (a feature of the fit, another) that gain by the estimates, the best first."""
        exchange = self._exchange(fit)
        found: list[tuple[float, int, int]] = []
        for i in exchange.droppable:
            gain = exchange.gains(i)
            most = min(_TRIES, gain.size)
            top, allowed = np.argpartition(gain, -most)[-most:], self._allowance(exchange, i, fit)
            found += [(-float(gain[j]), int(fit.features[i]), int(j)) for j in top if gain[j] > allowed]
        return [(i, j) for _, i, j in sorted(found)]

    def _allowance(self, exchange: Exchange, i: int, fit: Fit) -> float:
        """How little an exchange may gain by the estimates, to be tried all the same."""
        if self._estimates_are_exact():
            return _LOWER * abs(fit.psi)
        return -_PROMISING * exchange.cost(i)

    def _estimates_are_exact(self) -> bool:
        return self.objective.concordance == 0 and not np.any(self.problem.must_be_nonnegative())

    def _examined(self) -> int:
        """Show, as far as it can be shown, that no exchange lowers ψ; go on where one does. How many were examined."""
        while True:
            examined, better = self._examine(self.best)
            if better is None:
                return examined
            self._keep(self._improved(better))

    def _examine(self, fit: Fit) -> tuple[int, Fit | None]:
        """How many exchanges cannot lower ψ, and one that does where there is one."""
        total = self._total(fit)
        if self._is_perfect(fit) or self._estimates_are_exact():
            return total, None  # nothing is left to gain; or the last estimates were exact, and no one gains
        ruled_out, left = self._not_ruled_out(fit)
        tries = _Tries(self, fit)
        for i, j in left:
            if tries.n_refits >= self._most_tries(fit):
                break
            better = tries(i, j)
            if better is not None:
                return 0, better
            ruled_out += 1
        return ruled_out, None

    def _not_ruled_out(self, fit: Fit) -> tuple[int, list[tuple[int, int]]]:
        """How many exchanges the bound rules out, and the others, those that gain most by the estimates first."""
        exchange, magnitudes = self._exchange(fit), self.objective.column_magnitudes()
        few = self.k * self.problem.n_features <= _ALL
        found: list[tuple[float, int, int]] = []
        ruled_out = 0
        for i in exchange.droppable:
            gain = exchange.gains(i)
            left = exchange.outside
            if self.has_bounds():
                left = exchange.bounds(i, magnitudes, self.objective.concordance) > _LOWER * abs(fit.psi)
            ruled_out += self.problem.n_features - fit.features.size - int(np.count_nonzero(left))
            j = np.flatnonzero(left)
            j = j if few else j[np.argsort(-gain[j], kind="stable")[:_TOP]]
            found += [(-float(gain[j]), i, int(j)) for j in j]
        best = {j: gain for gain, _, j in sorted(found, reverse=True)}  # of each j, over all i
        return ruled_out, [
            (i, j) for gain, i, j in sorted(found, key=lambda one: (best[one[2]], one[2], one[0], one[1]))
        ]

    def has_bounds(self) -> bool:
        one_sided = bool(np.any(self.problem.must_be_nonnegative()))
        return self.problem.width == 1 and not one_sided and math.isfinite(self.objective.concordance)

    def _most_tries(self, fit: Fit) -> float:
        """How many refits are worth it: all where there are few exchanges, unless that is a lot of work."""
        if self.prove:
            return math.inf
        if self.k * self.problem.n_features > _ALL:
            return _TOP
        return max(_TOP, _WORK // (self.objective.n_margins * (fit.x.size + 1) ** 2 + _ONE))

    def _best_addition(self) -> tuple[float, int | None]:
        """What one more feature gains, and which."""
        fit = self.best
        if self._is_perfect(fit):
            return 0.0, None
        gain = self._exchange(fit).additions()
        best: tuple[float, int | None] = (0.0, None)
        for j in np.argsort(-gain, kind="stable")[:_ADDITIONS]:
            if gain[j] > 0:
                gained = fit.psi - self.fitted(np.union1d(fit.features, [j]), fit).psi
                best = max(best, (gained, int(j)), key=lambda pair: pair[0])
        return best

    # --- fits

    def fitted(self, features: Features, near: Fit | None = None) -> Fit:
        """ψ minimised over these features, begun at the coefficients of another fit."""
        self._check_time()
        self.n_refits += 1
        return refit(self.problem, features, near or self.best, self.tol * self.null.scale, self._how())

    def _how(self) -> How:
        surrogate = surrogate_by_name("concave")
        return How(Newton(), self._gamma(self.problem), surrogate, self.null, self._left, None)

    def _gamma(self, problem: Problem) -> float:
        return Newton().proximal_weight(problem.objective)

    def _exchange(self, fit: Fit) -> Exchange:
        constant = self.objective.concordance == 0
        if not constant or self.own is None:
            self.own = self.objective.feature_hessians_of(fit.margins)
            self.n_grad += 1
        return Exchange(self.problem, fit, self._gradient(fit), self._columns(fit), self.own)

    def _columns(self, fit: Fit) -> Matrix:
        """The columns of ∇²ψ that belong to the fit; where they are the same everywhere, computed once each."""
        features, width = fit.features, self.problem.width
        if self.objective.concordance > 0 or width > 1:
            self.n_grad += features.size * width
            return self.objective.cross_hessian_of(fit.margins, self.objective.restrict(features), True)
        missing = np.array([j for j in features if j not in self.columns], np.intp)
        if len(self.columns) * self.problem.n_features > _REMEMBERED:
            self.columns, missing = {}, features
        if missing.size:
            self.n_grad += missing.size
            new = self.objective.cross_hessian_of(fit.margins, self.objective.restrict(missing), True)
            self.columns.update(zip(missing.tolist(), new.T, strict=True))
        return np.array([self.columns[j] for j in features.tolist()]).reshape(features.size, -1).T

    def _gradient(self, fit: Fit) -> Vector:
        self._check_time()
        self.n_grad += 1
        return self.objective.gradient_of(fit.margins)

    def _null_gradient(self) -> Vector:
        assert self.null.gradient is not None
        return self.null.gradient

    def _margins(self, features: Features) -> Vector:
        part = self.objective.restrict(features)
        return part.margins(self.null.x[self.problem.coordinates(features)])

    def _keep(self, fit: Fit) -> None:
        if fit.psi < self.best.psi:
            self.best = fit

    def lowers(self, new: Fit, fit: Fit) -> bool:
        return new.psi < fit.psi - _LOWER * abs(fit.psi)

    def _is_perfect(self, fit: Fit) -> bool:
        return fit.psi <= _PERFECT * self.null.psi and self.null.psi > 0

    def _is_counted(self, features: Features) -> NDArray[np.bool_]:
        weights = self.problem.weights
        return np.ones(features.size, np.bool_) if weights is None else weights[features] > 0

    def _counted(self, features: Features) -> Features:
        return features[self._is_counted(features)]

    def _with_exempt(self, features: Features) -> Features:
        return np.union1d(features, self.problem.exempt).astype(np.intp)

    def _total(self, fit: Fit) -> int:
        inside = self._counted(fit.features).size
        return inside * (self.problem.n_features - self.problem.exempt.size - inside)

    def _left(self) -> float:
        return self.seconds - (time.monotonic() - self.began)

    def _check_time(self) -> None:
        if self._left() <= 0:
            raise TimeoutError

    # --- the answer

    def _subset(self, examined: int, status: Status) -> Subset:
        fit, multiplier, addition = self.best, 0.0, None
        try:
            if status is Status.SOLVED:
                multiplier, addition = self._best_addition()
        except TimeoutError:
            status = Status.TIME_LIMIT
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        x = np.zeros(self.problem.dimension)
        places = self.problem.coordinates(fit.features)
        x[places] = fit.x
        psi, gradient = self.objective.value_and_gradient(x)
        support = self._counted(np.flatnonzero(self.problem.sizes(x)))
        exchanges = Exchanges(examined, self._total(fit))
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
            self.n_grad + 1,
            self.n_refits,
            time.monotonic() - self.began,
        )

    def _stationarity(self, x: Vector, gradient: Vector, signs: NDArray[np.bool_]) -> float:
        held = signs & (x == 0)
        return float(np.max(np.where(held, np.maximum(-gradient, 0), np.abs(gradient)), initial=0.0)) / self.null.scale

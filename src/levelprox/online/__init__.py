"""A model updated from batches, with at most k features after every batch.

A batch of weight m with the loss ψ_B is combined with a model of the previous batches (`batch_problem.py`): x becomes

    argmin  α ψ_B(x) + (1 − α) [⟨g, x − x°⟩ + ½ (x − x°)'H(x − x°)] + ½ ρ ‖x − x°‖²,      α = m/(m + M),

over x with at most k features: a proximal point step in the metric of what earlier batches knew, with ρ worth about one
sample. For a squared loss and a fixed support this is recursive least squares.

With k features at hand a surrogate of the count has no room left, and no feature could ever enter. So features are
swapped: those outside with the largest expected gain g_j²/(2 h_j) wait in a pool, in which H is kept; once enough is
known of them, the problem is solved over all by Newton's method; the feature whose absence costs least in the
second-order model there, x_j²/(2 K_jj) with K the inverse Hessian, is left out, again and again, until k are left;
these are fitted. The new support is taken only if it pays: by more than chance gains with the best of d useless
features, τ(1 + log d)/(m + M), where τ is the noise of one sample's gradient.

There is no certificate: batches are stored only as two moments, not as data.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from levelprox._typing import Features, Mask, Matrix, Vector
from levelprox._validation import finite, positive, real_array, whole
from levelprox.exceptions import InvalidInputError
from levelprox.methods import Context, Method, Stop
from levelprox.objectives import LinearModel, Model, OneVsRestModel
from levelprox.online.batch_problem import BatchProblem, PastBatches, coordinates
from levelprox.result import Status

_PRIOR = 1.0  # samples that the term with ρ is worth
_LEAST = 1e-9  # of the curvature: the least ρ, which keeps equal columns apart
_FLAT = 0.1  # of the typical curvature: the least stored curvature; that of a confident model would vanish
_STEADY = 0.5  # of the typical curvature, added where ψ is not convex
_WAITING = (8, 32)  # least and largest number of features that wait to enter; k, if it is between
_PATIENCE = 2.0  # how much better a feature must be to take the place of one that waits
_READY = 4.0  # samples per feature that must have been seen of one before it may enter
_OUTLYING = 100.0  # times the noise so far: a batch is not believed to be noisier than that
_ROUNDS = 4  # of swaps, if a batch has more weight than all before it
_HALVINGS = 60
_SMALL = 1e-3  # of what residuals have been
_TINY = 1e-12
_ENVELOPE = 0.5  # of the median distance from a kink: how wide it is smoothed


class Stream:
    """An online fit of at most k features.

    Points are in the coordinates of the given models, which should be those of columns with about unit variance.
    When these coordinates change, as running means and deviations do, say so by `rescale`.

    Parameters
    ----------
    k : int
        How many features may be used besides the unpenalized and the kept ones; at least 0.
    keep : array-like of int or bool, optional
        Features that are always used and never count, as indices or as a mask.
    nonnegative : array-like of int or bool, optional
        Features whose coefficients must not be negative; for models with one coefficient per feature.
    memory : float, default=inf
        After samples of this weight the weight of what was before them has fallen to 1/e. inf discounts nothing: then x
        approaches the fit of all data together. On a drifting stream, choose about as many samples as the drift
        takes to matter.

    Attributes
    ----------
    x : ndarray of shape (dimension,) or None
        The current point; None before the first batch.
    """

    def __init__(
        self,
        k: int,
        keep: ArrayLike | None = None,
        nonnegative: ArrayLike | None = None,
        memory: float = math.inf,
    ) -> None:
        self.k = whole("k", k)
        self.keep, self.nonnegative = _indices("keep", keep), _indices("nonnegative", nonnegative)
        self.memory = memory if memory == math.inf else positive("memory", memory)
        self.x: Vector | None = None
        self._unpenalized: Features = np.empty(0, np.intp)
        self._past = PastBatches(0, 1)
        self._always: Features = np.empty(0, np.intp)
        self._bounded: Mask = np.empty(0, np.bool_)
        self._since = math.inf  # samples since features were last swapped, or might have been
        self._spread = 0.0  # the log of how far margins are from kinks

    def rescale(self, ratio: ArrayLike, shift: ArrayLike | None = None) -> None:
        """Let features be measured in other units from now on: columns a become (a − shift)/ratio.

        With a column (X_j − c)/s before and (X_j − c')/s' from now on, ratio = s'/s and shift = (c' − c)/s. The model
        stays the same function of the data: x_j becomes ratio_j x_j, and the intercept grows by Σ shift_j x_j.

        Parameters
        ----------
        ratio : array-like of shape (n_features,)
            Positive; for all features but the intercept.
        shift : array-like of shape (n_features,), optional
            None is 0, and must be where the model has no intercept.
        """
        if self.x is None:
            return
        n_outputs = self._past.n_outputs
        ratios = self._by_coordinate("ratio", ratio, 1.0)
        shifts = np.zeros_like(ratios) if shift is None else self._by_coordinate("shift", shift, 0.0)
        if not np.all(ratios > 0):
            raise InvalidInputError("ratio must be positive")
        ones = coordinates(self._unpenalized, n_outputs)
        if ones.size:
            self.x[ones] += (shifts * self.x).reshape(-1, n_outputs).sum(axis=0)
        elif np.any(shifts):
            raise InvalidInputError("columns cannot be shifted where the model has no intercept")
        self.x *= ratios
        self._past.rescale(ratios, shifts, self._unpenalized)

    def step(self, model: Model, weight: float) -> Vector:
        """Update the model from a batch.

        Parameters
        ----------
        model : Model
            ψ_B, the mean loss of the batch.
        weight : float
            m, the sum of the weights of its samples, in one unit for all batches in which an ordinary sample weighs 1.

        Returns
        -------
        ndarray of shape (dimension,)
            The new point, finite: at most k features other than kept and unpenalized ones are not zero.
        """
        *_, x = self.rounds(model, weight)
        return x.copy()

    def _begin(self, model: Model) -> None:
        d = model.dimension // model.n_outputs
        for name, chosen in (("keep", self.keep), ("nonnegative", self.nonnegative)):
            if chosen.size and not 0 <= chosen[0] <= chosen[-1] < d:
                raise InvalidInputError(f"{name} must be within 0..{d - 1}")
        if model.n_outputs > 1 and self.nonnegative.size:
            raise InvalidInputError("nonnegative is for features with one coefficient")
        self.x = np.zeros(model.dimension)
        self._unpenalized = model.unpenalized
        self._always = np.union1d(self.keep, model.unpenalized).astype(np.intp)
        self._bounded = np.zeros(model.dimension, np.bool_)
        self._bounded[np.setdiff1d(self.nonnegative, model.unpenalized)] = True
        self._past = PastBatches(model.dimension, model.n_outputs)

    def rounds(self, model: Model, weight: float) -> Iterator[Vector]:
        """Update the model from a batch, as `step`, and yield the point of every round of swaps; the last one stays."""
        m = positive("weight", weight)
        if self.x is None:
            self._begin(model)
        assert self.x is not None
        if model.dimension != self.x.size or model.n_outputs != self._past.n_outputs:
            raise InvalidInputError(f"the batch has {model.dimension} coordinates, those before it had {self.x.size}")
        self._past.fade(math.exp(-m / self.memory))
        self._since += m
        model = self._smoothed(model, m)
        past, x = self._past, _finite_start(model, self.x)
        if x is None:  # ψ_B is not finite anywhere near
            yield self.x
            return
        z = model.margins(x)
        before, bend = model.gradient_of(z), model.hessian_diagonal_of(z, True)
        share = m / (past.weight + m)
        noise = _noise(model.gradient_squares_of(z), share * bend + (1 - share) * past.diagonal)
        if past.weight and past.noise:
            noise = min(noise, _OUTLYING * past.noise)
        past.noise += share * (noise - past.noise) if math.isfinite(noise) else 0.0
        trial = self._tried(model, m, x, self._always) if past.weight == 0 else None
        for _ in range(_ROUNDS if share > 0.5 else 1):
            x = x if trial is None else trial.x
            following = self._tried(model, m, x, self._pool(model, m, before, x))
            if following is None:
                break
            settled = np.array_equal(following.x != 0, x != 0)
            trial = following
            yield trial.x
            if settled:
                break
        if trial is not None:
            self._remember(model, m, before, trial)
            if self._since >= _READY * (self.k + 5):
                self._since = 0.0
            self.x = trial.x
        yield self.x

    def _pool(self, model: Model, m: float, before: Vector, x: Vector) -> Features:
        """Return the features of x, and those outside with the largest expected gain."""
        past, n_outputs = self._past, self._past.n_outputs
        inside = np.union1d(self._always, np.flatnonzero(x) // n_outputs).astype(np.intp)
        count = min(max(self.k, _WAITING[0]), _WAITING[1], x.size // n_outputs - inside.size) if self.k else 0
        if count == 0:
            return inside
        z = model.margins(x)
        gradient, bend = model.gradient_of(z), model.hessian_diagonal_of(z, True)
        expected = gradient + past.reliable / (past.reliable + m) * (past.gradient - before)
        expected[self._bounded & (expected > 0)] = 0.0
        bend = (m * bend + past.weight * past.diagonal) / (m + past.weight)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            gains = np.where(bend > 0, expected**2 / bend, 0.0).reshape(-1, n_outputs).sum(axis=1)
        gains = np.where(np.isfinite(gains), gains, 0.0)
        gains[past.pool] *= _PATIENCE
        gains[inside] = -1.0
        most = np.argpartition(-gains, count - 1)[:count]
        return np.union1d(inside, most[gains[most] > 0]).astype(np.intp)

    def _tried(self, model: Model, m: float, x: Vector, pool: Features) -> _Trial | None:
        """At most k features of the pool, fitted; None where Newton's method fails."""
        past, n_outputs, center = self._past, self._past.n_outputs, self.x
        assert center is not None
        if not pool.size:
            return None
        past.choose(pool)
        share, places = m / (past.weight + m), coordinates(pool, n_outputs)
        part = model.restrict(pool)
        H = past.hessian(part.hessian_of(part.margins(x[places]), True), m)
        bend = share * part.curvature + (1 - share) * past.curvature
        metric = (1 - share) * H
        own = np.diag_indices_from(metric)
        if part.self_concordance > 0:
            metric[own] += (1 - share) * np.maximum(_FLAT * bend - np.diagonal(H), 0.0)
        metric[own] += max(_PRIOR / (past.weight + m), _LEAST) * bend
        inside = np.isin(pool, self._always) | np.any(center[places].reshape(-1, n_outputs) != 0, axis=1)
        trust = np.repeat(
            np.where(inside, 1.0, math.sqrt(past.reliable / past.weight) if past.weight else 1.0), n_outputs
        )
        gradient = trust * past.gradient[places]
        steady = _STEADY * bend if _is_bent_back(model) else 0.0
        problem = BatchProblem(
            part, metric, (1 - share) * gradient, center[places], share, self._bounded[places], steady
        )
        enough = _READY * (self.k + 5)
        ready = (past.seen + m >= min(enough, past.weight + m)) & (self._since >= enough)
        price = past.noise * (1 + math.log(x.size)) / (past.weight + m)
        best = problem.over_few(x[places], ~np.isin(pool, self._always), ready, self.k, price)
        if best is None:
            return None
        end = np.zeros_like(x)
        end[places] = best.x
        gradient[best.x == 0] = past.gradient[places][best.x == 0]  # of these nothing was believed yet
        return _Trial(end, best.margins, part, gradient, H, bend)

    def _remember(self, model: Model, m: float, before: Vector, trial: _Trial) -> None:
        """Add the batch to the past, about the new point."""
        assert self.x is not None
        past, z, places = self._past, trial.margins, coordinates(self._past.pool, self._past.n_outputs)
        gradient, diagonal = model.gradient_of(z), model.hessian_diagonal_of(z, True)
        if np.all(np.isfinite(gradient)) and np.all(np.isfinite(diagonal)):
            past.follow(trial.gradient, trial.past, (trial.x - self.x)[places], gradient - before, m)
            inside = np.zeros((trial.x.size // past.n_outputs, past.n_outputs), np.bool_)
            inside[self._always] = inside[np.flatnonzero(trial.x) // past.n_outputs] = True
            past.take_in(trial.part.hessian_of(z, True), gradient, diagonal, inside.ravel(), m)
            past.curvature = trial.curvature

    def _smoothed(self, model: Model, m: float) -> Model:
        """Return the envelope of a loss with kinks, as wide as residuals of all batches; a smooth ψ itself."""
        if model.smooth:
            return model
        assert isinstance(model, LinearModel | OneVsRestModel) and self.x is not None
        off = [np.abs(z - part.target) for part, z in _by_class(model, model.margins(self.x))]
        weight = model.sample_weight
        typical = _median(np.concatenate(off), None if weight is None else np.tile(weight, len(off)))
        past = self._past.weight
        # A batch on its kinks does not discount the rest.
        least = math.exp(self._spread) * _SMALL if past else _TINY
        spread = math.log(max(typical, least))
        self._spread += m / (past + m) * (spread - self._spread) if past else spread
        return model.with_loss(model.loss.smoothed(_ENVELOPE * math.exp(self._spread)))

    def _by_coordinate(self, name: str, value: ArrayLike, of_intercept: float) -> Vector:
        """One number for each coordinate from one for each feature but the intercept."""
        assert self.x is not None
        n_outputs = self._past.n_outputs
        full = np.full(self.x.size // n_outputs, of_intercept)
        others = np.delete(np.arange(full.size), self._unpenalized)
        given = finite(name, real_array(name, value))
        if given.shape != others.shape:
            raise InvalidInputError(f"{name} must have shape ({others.size},), got {given.shape}")
        full[others] = given
        return np.repeat(full, n_outputs)


@dataclass(frozen=True, eq=False)
class Update:
    """State of the update from one batch: the point after a round of swaps."""

    best: Vector


class BatchUpdate(Method[Update]):
    """The update of a stream from one batch, for the driver. The problem is a pair: the model and weight of the batch.

    An update that is cut short raises an error, and leaves a stream that must not be used: give it a copy.

    Parameters
    ----------
    stream : Stream
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def init(self, problem: tuple[Model, float], ctx: Context) -> Update:
        """Return the point before the batch."""
        x = self.stream.x
        return Update(np.zeros(problem[0].dimension) if x is None else x)

    def steps(self, state: Update, ctx: Context) -> Generator[Update, None, None]:
        """Yield a state for every round of swaps."""
        for x in self.stream.rounds(*ctx.problem):
            yield Update(x)

    def finish(self, state: Update, status: Status, ctx: Context) -> Vector:
        """Return the new point."""
        if status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        if status is not Status.SOLVED:
            raise Stop(status)
        return state.best.copy()


@dataclass(frozen=True, eq=False)
class _Trial:
    """A fit of at most k features: the point, its margins, ψ_B, g and H of the past over the pool; a curvature."""

    x: Vector
    margins: Vector
    part: Model
    gradient: Vector
    past: Matrix
    curvature: float


def _noise(squares: Vector, bend: Vector) -> float:
    """τ, the second moment over the curvature of one sample's gradient: the median over all coordinates."""
    bent = bend > 0
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.median(squares[bent] / bend[bent])) if np.any(bent) else 0.0


def _finite_start(model: Model, x: Vector) -> Vector | None:
    """x, or so much nearer to the origin that ψ is a number."""
    for _ in range(_HALVINGS):
        z = model.margins(x)
        if math.isfinite(model.value_of(z)) and np.all(np.isfinite(model.gradient_of(z))):
            return x
        x = x / 2
    return None


def _is_bent_back(model: Model) -> bool:
    """Whether ψ is not convex."""
    return isinstance(model, LinearModel | OneVsRestModel) and model.loss.weak_convexity > 0


def _by_class(model: LinearModel | OneVsRestModel, z: Vector) -> Iterator[tuple[LinearModel, Vector]]:
    """Return the model of each class with its margins."""
    parts = (model,) if isinstance(model, LinearModel) else model.parts
    return zip(parts, z.reshape(z.shape[0], -1).T, strict=True)


def _median(values: Vector, weight: Vector | None) -> float:
    """Return the least value such that values up to it have half of the weight."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(np.ones(values.size) if weight is None else weight[order])
    return float(values[order[np.searchsorted(total, total[-1] / 2)]])


def _indices(name: str, value: ArrayLike | None) -> Features:
    if value is None:
        return np.empty(0, np.intp)
    array = np.asarray(value)
    if array.dtype == np.bool_:
        return np.flatnonzero(array)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InvalidInputError(f"{name} must be a mask or a 1-D array of integers, got {value!r}")
    return np.unique(array).astype(np.intp)

"""Functions of the stochastic subsolvers: batch sizes, samples, and minibatch steps on a subproblem.

A sample i is drawn with probability s_i / Σ s, so the mean of ℓ'(⟨a_i, x⟩, b_i) a_i over a batch has mean
∇ψ(x). Samples are drawn here, with NumPy's generator: a seed determines every step, on every machine.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

import levelprox._kernels as _kernels
from levelprox._typing import Vector
from levelprox._validation import whole
from levelprox.methods.subsolvers._base import Subproblem, Subsolver
from levelprox.objectives import LinearModel, Objective
from levelprox.result import StopReason

_SMALLEST_BATCH = 16
_PORTION = 2**16  # samples drawn at once, or n where that is more


def check_batch_size(value: object) -> None:
    """Raise an error unless `value` is None or a positive integer."""
    if value is not None:
        whole("batch_size", value, 1)


def batch_size(asked: int | None, model: LinearModel) -> int:
    """Return the number of rows per step: as given, at most n; by default about d entries of X.

    A projection visits at most all coordinates, and usually far fewer: with d entries of X per batch it costs at most
    a few times as much as the gradient.
    """
    n, d = model.design.shape
    if asked is None:
        per_row = max(model.design.stored / n, 1.0)
        return min(n, max(_SMALLEST_BATCH, math.ceil(d / per_row)))
    return min(int(asked), n)


def batch_warning(asked: int | None, objective: Objective) -> str:
    """Return the warning about a batch that is larger than the data; empty if it is not."""
    if asked is None or not isinstance(objective, LinearModel) or asked <= objective.design.shape[0]:
        return ""
    n = objective.design.shape[0]
    return f"batch_size={asked} is larger than the number of samples {n}; using {n}"


@dataclass(frozen=True)
class MinibatchSubsolver(Subsolver):
    """Base class of the subsolvers that take steps on minibatches of a linear model.

    Attributes
    ----------
    batch_size : int, optional
        Rows per step; see `batch_size`.
    """

    monotone: ClassVar[bool] = False

    batch_size: int | None = None

    def __post_init__(self) -> None:
        check_batch_size(self.batch_size)

    def warning(self, objective: Objective) -> str:
        """Return the warning about a batch that is larger than the data; empty if it is not."""
        return batch_warning(self.batch_size, objective)

    def is_random(self, objective: Objective) -> bool:
        """Return True."""
        return True


def draw(model: LinearModel, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw `count` samples with replacement, each i with probability s_i / Σ s; never one of weight 0."""
    n = model.design.shape[0]
    if model.sample_weight is None:
        return rng.integers(n, size=count)
    edges = np.cumsum(model.sample_weight)
    # u in [edges_{i-1}, edges_i) selects i: the interval of a weight 0 is empty, and u is below the last edge.
    picked = np.searchsorted(edges / edges[-1], rng.random(count), side="right")
    return picked.astype(np.int64, copy=False)


def largest_row(model: LinearModel) -> float:
    """Return max ‖a_i‖² over the samples of positive weight."""
    squares = model.row_squares if model.sample_weight is None else model.row_squares[model.sample_weight > 0]
    return float(squares.max())


@dataclass
class Progress:
    """The state of a stochastic run: x and counts of work. Changed in place, so that it stays valid after Ctrl-C.

    Attributes
    ----------
    x : ndarray of shape (d,)
        The last point, in the surrogate set after the first step.
    multiplier : ndarray of shape (1,)
        y of the last projection, per unit step.
    counts : ndarray of shape (4,)
        Steps, rows whose gradient was computed, projections, coordinates in them.
    """

    x: Vector
    multiplier: Vector = field(default_factory=lambda: np.zeros(1))
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(4, np.int64))

    @property
    def steps(self) -> int:
        """Number of minibatch steps."""
        return int(self.counts[0])

    @property
    def rows(self) -> int:
        """Number of rows whose gradient was computed."""
        return int(self.counts[1])

    @property
    def projections(self) -> int:
        """Number of projections, each onto the set of all coordinates."""
        return int(self.counts[2])


def take_steps(
    subproblem: Subproblem,
    model: LinearModel,
    progress: Progress,
    samples: NDArray[np.int64],
    batch: int,
    lengths: Vector,
    seconds: float,
    snapshot: tuple[Vector, Vector] | None = None,
) -> StopReason:
    """Run one step per batch of `samples` and return why it ended: "steps", "seconds" or "not finite".

    Parameters
    ----------
    lengths : ndarray
        t of each step.
    snapshot : (slopes of the samples, ∇ψ), optional
        Both at the point whose gradient reduces the variance.
    """
    slopes, gradient = snapshot or (None, None)
    return _kernels.stochastic_steps(
        model.by_rows,
        subproblem.set,
        progress.x,
        subproblem.center,
        subproblem.gamma,
        samples,
        batch,
        lengths,
        slopes,
        gradient,
        seconds,
        progress.multiplier,
        progress.counts,
    )


def random_steps(
    subproblem: Subproblem,
    model: LinearModel,
    progress: Progress,
    batch: int,
    lengths: Vector,
    seconds: float,
    rng: np.random.Generator,
    snapshot: tuple[Vector, Vector] | None = None,
) -> StopReason:
    """Run `take_steps` on random samples, drawn about one pass at a time to limit memory."""
    began = time.monotonic()
    portion = max(1, max(_PORTION, model.design.shape[0]) // batch)
    for begin in range(0, lengths.size, portion):
        part = lengths[begin : begin + portion]
        samples = draw(model, part.size * batch, rng)
        left = seconds - (time.monotonic() - began)
        stop = take_steps(subproblem, model, progress, samples, batch, part, left, snapshot)
        if stop != StopReason.STEPS:
            return stop
    return StopReason.STEPS


def full_step(
    subproblem: Subproblem, x: Vector, gradient: Vector, step: float, guess: float
) -> tuple[Vector, float] | None:
    """Return P(x − t∇ψ_k) with ∇ψ_k = gradient + γ(x − c), and the multiplier of P per unit step.

    `guess` is a guess of that multiplier. Return None if x − t∇ψ_k overflows.
    """
    shifted = x - step * (gradient + subproblem.gamma * (x - subproblem.center))
    projected = subproblem.projected(shifted, guess * step)
    return None if projected is None else (projected[0], projected[1] / step)

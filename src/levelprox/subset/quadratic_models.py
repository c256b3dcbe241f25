"""Sets of k features from second-order models of ψ over all features.

Where there are more samples than features, ψ near a fit of all features is close to its parabola there, and the best k
features of a parabola are found by its matrix alone (`kernels/algorithms/gram_search.hpp`). The models are those

- at the null fit and at fits of all features with some ridge, which exist whatever the data; they do not depend on k
  and are kept with the data;
- at the fit of the best set so far, again and again, for as long as that leads to a lower ψ.

Every set is refitted: what a model promises decides nothing but which sets are tried.
"""

from __future__ import annotations

import math
from typing import cast

import numpy as np
from numpy.typing import NDArray

from levelprox import _kernels
from levelprox.objectives import LinearModel
from levelprox.objectives.reduced import ReducedModel
from levelprox.problem import Problem
from levelprox.subset.refit import Fit
from levelprox.subset.shared_cache import shared
from levelprox.subset.swaps import Swaps

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Features = NDArray[np.intp]

_MOST, _SMALL = 400, 2**22  # features, and entries of X that are kept
_SAMPLES = 4  # for each feature
_RIDGES = (1e-1, 1e-3)  # of the curvature along each feature at the null fit
_STEPS, _ENOUGH = 12, 1e-3  # of a fit of all features, and what is left to gain, of ψ: it is but a place for a model
_HALVINGS = 8
_MODELS = 8  # at fits of the best set so far
_SINGULAR = 1e-10  # of a diagonal of 1


def has_parabolas(problem: Problem) -> bool:
    """Return whether second-order models over all features are cheap, and say something."""
    objective = problem.objective
    if not isinstance(objective, LinearModel) or isinstance(objective, ReducedModel):
        return False
    n, d = objective.design.shape
    smooth = objective.convex and math.isfinite(objective.self_concordance) and objective.self_concordance > 0
    return smooth and d <= _MOST and n >= _SAMPLES * (d + 1) and not np.any(problem.must_be_nonnegative())


def best_by_parabolas(swaps: Swaps, null: Fit, k: int, brief: bool = False) -> Fit:
    """Return the best fit over sets of at most k features that second-order models lead to.

    Parameters
    ----------
    swaps : Swaps
        Of a problem that `has_parabolas`.
    null : Fit
        The null fit.
    k : int
    brief : bool
        Whether to search each model for less long, and models at fits from these fits alone.
    """
    objective, kept = cast(LinearModel, swaps.objective), swaps.problem.exempt
    best, tried = null, set[bytes]()
    known = shared(swaps.problem)
    with known.lock:
        searches = _fixed(swaps, objective, kept, null)
    for place, search in enumerate(searches, 1):
        swaps.watch.done = place / (len(searches) + 1)
        with known.lock:  # what a search has taken in so far is kept for the next k
            features = np.array(search.best(k, None, brief), np.intp)
        if features.tobytes() in tried:
            continue
        tried.add(features.tobytes())
        fit = swaps.fitted(features, best)
        swaps.remember(fit)
        best = fit if fit.psi < best.psi else best
    for _ in range(_MODELS):
        if swaps.is_perfect(best):
            break
        x = np.zeros(objective.dimension)
        x[best.features] = best.x
        swaps.check_time()
        model = _model(swaps.problem, x, best.margins)
        swaps.n_grad += 1
        begin = best.features.tolist() if brief else None
        features = np.array(model.best(k, begin, brief), np.intp) if model is not None else best.features
        if features.tobytes() in tried:
            break
        tried.add(features.tobytes())
        fit = swaps.fitted(features, best)
        swaps.remember(fit)
        if not swaps.lowers(fit, best):
            break
        best = fit
    return best


def _fixed(swaps: Swaps, objective: LinearModel, kept: Features, null: Fit) -> list[_kernels.GramSearch]:
    """Return the models at points that do not depend on k."""
    known = shared(swaps.problem)
    if known.models is None:
        if known.entries is None and objective.n_margins * objective.dimension <= _SMALL:
            moves = known.columns.moves(np.arange(objective.dimension))
            known.entries = np.stack([objective.of_samples(move) for move in moves], axis=1)
        before = swaps.n_grad
        known.models = _models(swaps, objective, kept, null)
        known.n_grad, swaps.n_grad = swaps.n_grad - before, before
    swaps.n_grad += known.n_grad  # whichever k made them: counts do not depend on other k
    return known.models


def _hessian(problem: Problem, z: Vector) -> Matrix:
    objective, entries = cast(LinearModel, problem.objective), shared(problem).entries
    if entries is None:
        return objective.hessian_of(z, True)
    rows = np.sqrt(objective.bend_of(z, True))[:, None] * entries
    return objective.bent_by_ridge(np.asarray(rows.T @ rows))


def _models(swaps: Swaps, objective: LinearModel, kept: Features, null: Fit) -> list[_kernels.GramSearch]:
    x, z = np.zeros(objective.dimension), null.margins
    x[kept] = null.x
    models = [_model(swaps.problem, x, z)]
    curvature = objective.hessian_diagonal_of(z, True)
    for ridge in _RIDGES:
        penalty = ridge * curvature
        penalty[kept] = 0.0
        x, z = _with_ridge(swaps, objective, x, z, penalty)
        models.append(_model(swaps.problem, x, z))
    return [model for model in models if model is not None]


def _with_ridge(swaps: Swaps, objective: LinearModel, x: Vector, z: Vector, ridge: Vector) -> tuple[Vector, Vector]:
    """Return x and margins of about the least ψ(x) + ½ Σ ridge_j x_j², from a point, by Newton's method."""
    value = objective.value_of(z) + 0.5 * float(np.sum(ridge * x**2))
    for _ in range(_STEPS):
        swaps.check_time()
        gradient, hessian = objective.gradient_of(z) + ridge * x, _hessian(swaps.problem, z)
        swaps.n_grad += 1
        diagonal = np.diagonal(hessian) + ridge
        unit = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        system = unit[:, None] * (hessian + np.diag(ridge)) * unit + _SINGULAR * np.eye(x.size)
        try:
            step = -unit * np.linalg.solve(system, unit * gradient)
        except np.linalg.LinAlgError:
            break
        predicted = -float(np.sum(step * gradient))
        if not predicted > _ENOUGH * abs(value):
            break
        along, t = objective.moved(step), 1.0
        for _ in range(_HALVINGS):
            new = objective.value_of(z + t * along) + 0.5 * float(np.sum(ridge * (x + t * step) ** 2))
            if new < value:
                break
            t /= 2
        else:
            break
        x, z, value = x + t * step, z + t * along, new
    return x, z


def _model(problem: Problem, x: Vector, z: Vector) -> _kernels.GramSearch | None:
    """Return what searches by the second-order model at x with margins z; None where it is no parabola."""
    objective, kept = cast(LinearModel, problem.objective), problem.exempt
    gradient, hessian = objective.gradient_of(z), _hessian(problem, z)
    diagonal = np.diagonal(hessian)
    if not (np.all(np.isfinite(hessian)) and np.all(np.isfinite(gradient)) and np.any(diagonal > 0)):
        return None
    unit = np.where(diagonal > 0, 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 0.0)
    gram = unit[:, None] * hessian * unit
    pull = unit * (hessian @ x - gradient)
    try:
        least = float(pull @ np.linalg.solve(gram + _SINGULAR * np.eye(x.size), pull))
    except np.linalg.LinAlgError:
        return None
    mask = np.zeros(x.size, np.uint8)
    mask[kept] = 1
    square = (1 + 1e-6) * least if least > 0 else 1.0
    return _kernels.GramSearch(np.ascontiguousarray(gram), np.ascontiguousarray(pull), square, mask)

"""The start of a search for the squared loss: sets of features from its Gram matrix.

The squared loss is its parabola, for any number of features: the matrix is searched by rows, each computed when a
feature first enters (`kernels/algorithms/gram_search.hpp`). The set is refitted on the data.
"""

from __future__ import annotations

import math
from functools import cache
from typing import cast

import numpy as np

import levelprox._kernels as _kernels
from levelprox._typing import Vector
from levelprox.objectives import LinearModel
from levelprox.objectives.reduced import ReducedModel, blocks, is_dense, is_reducible, triangle_of
from levelprox.problem import FeatureProblem
from levelprox.subset.column_cache import shared
from levelprox.subset.fit import Fit
from levelprox.subset.starts import KEPT_ENTRIES, mask, units
from levelprox.subset.swaps import SwapSearch

_CONSTANT_SHARE = 1e-20  # of the square of a column: less is left of it by rounding of its mean


def best_by_gram(swaps: SwapSearch, k: int, brief: bool = False) -> Fit:
    """Return the fit over the best set of at most k features that the Gram matrix leads to, if ψ `has_gram`.

    A brief search leaves a set that no swap improves by one feature less or more only.
    """
    objective, once = swaps.problem.objective, swaps.monitor.once
    if isinstance(objective, ReducedModel):
        return once(lambda: swaps.fitted(objective.best_features(k, swaps.problem.unpenalized)))
    gram = cache(lambda: _gram(swaps))
    once(lambda: _forward_by_gram(swaps, gram(), k))
    return once(lambda: _fit_by_gram(swaps, gram(), k, brief))


def _forward_by_gram(swaps: SwapSearch, gram: _kernels.GramSearch, k: int) -> None:
    """Keep fits of less than k features by forward selection: a search that is cut short has a set."""
    near, count = swaps.best, 1
    while count < k:
        with shared(swaps.problem).lock:
            features = np.array(gram.forward(count), np.intp)
        near = swaps.roughly(swaps.problem.with_unpenalized(features), near)
        swaps.remember(near)
        count *= 2


def _fit_by_gram(swaps: SwapSearch, gram: _kernels.GramSearch, k: int, brief: bool) -> Fit:
    with shared(swaps.problem).lock:
        features = np.array(gram.best(k, None, brief, swaps.monitor.take_swap), np.intp)
        swaps.n_grad += gram.n_rows
    return swaps.fitted(swaps.problem.with_unpenalized(features))


def _gram(swaps: SwapSearch) -> _kernels.GramSearch:
    """Return the search by the Gram matrix of ψ; that of small data is kept for other k."""
    known = shared(swaps.problem)
    with known.lock:
        known.gram = known.gram or _gram_of_samples(swaps.problem)
    return known.gram or _gram_of_columns(swaps)


def _gram_of_samples(problem: FeatureProblem) -> _kernels.GramSearch | None:
    """Return the search over a copy of few samples, without the intercept; None where X is sparse or large.

    The triangle of the samples takes their place, where there is one: it has the same Gram matrix.
    """
    objective = cast(LinearModel, problem.objective)
    n, d = objective.design.shape
    ones = objective.unpenalized
    if n * d > KEPT_ENTRIES or not is_dense(objective.design):
        return None
    rows = triangle_of(objective) if is_reducible(objective) else np.vstack(list(blocks(objective)))
    entries = np.sqrt(2.0) * rows
    A, b = entries[:, ones.size : -1], entries[:, -1]
    ridge = np.zeros(d - ones.size) if objective.ridge is None else objective.ridge.curvatures()[: d - ones.size]
    before = np.einsum("ij,ij->j", A, A)
    if ones.size:
        one = entries[:, 0] / math.sqrt(float(entries[:, 0] @ entries[:, 0]))
        A, b = A - np.outer(one, one @ A), b - (one @ b) * one
    squares = np.einsum("ij,ij->j", A, A)
    squares = np.where(squares > _CONSTANT_SHARE * before, squares, 0.0) + ridge
    if not (np.all(np.isfinite(squares)) and math.isfinite(square := float(b @ b))):
        return None
    unit = units(squares)
    A = np.ascontiguousarray(A * unit)
    kept, diagonal = mask(problem.unpenalized, A.shape[1]), (squares > 0).astype(np.float64)
    return _kernels.GramSearch(A, ridge * unit**2, diagonal, b @ A, square, kept)


def _gram_of_columns(swaps: SwapSearch) -> _kernels.GramSearch:
    """Return the search over rows that are products with all columns."""
    objective = cast(LinearModel, swaps.objective)
    z = objective.origin
    squares = objective.hessian_diagonal_of(z, True)
    unit = units(squares)

    def row(j: int) -> Vector:
        before = swaps.n_grad
        column = swaps.columns_of(Fit(np.array([j], np.intp), np.zeros(1), 0.0, z))[:, 0]
        swaps.n_grad = before  # rows are counted at the end: a resumed search computes some of them again
        return np.asarray(unit[j] * unit * column, np.float64)

    pull, work = -unit * objective.gradient_of(z), float(objective.design.stored)
    kept, diagonal = mask(swaps.problem.unpenalized, objective.dimension), (squares > 0).astype(np.float64)
    return _kernels.GramSearch(row, work, diagonal, pull, 2 * objective.value_of(z), kept)

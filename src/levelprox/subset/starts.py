"""Sets of features from which swaps start: those that second-order models over many features at once lead to.

Where there are more samples than features, ψ near a fit of all features is close to its parabola there, and the best k
features of a parabola are found from its matrix alone (`kernels/algorithms/gram_search.hpp`). The models are those

- at the null fit and at fits of all features with some ridge, which exist for any data; they do not depend on k and
  are kept with the data;
- at the fit of the best set so far, repeated for as long as that leads to a lower ψ.

Where swaps are examined, the model at the best fit then leads to 2k features, of which the least useful are left out.

Every set is refitted: a model only decides which sets are tried.

With too many features for that, and where nothing has to be shown (fits of folds), the models are over some of the
features, W: those that gain most by themselves, those that forward selection adds, and the runners-up of these. W does
not depend on k. Swaps for any other feature follow.

The squared loss is its parabola, for any number of features: its Gram matrix is searched by rows, each computed when a
feature first enters.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache, partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

import levelprox._kernels as _kernels
from levelprox._typing import Features, Matrix, Vector
from levelprox.certificate.null_model import NullFit
from levelprox.losses import Squared
from levelprox.objectives import LinearModel, MultinomialModel
from levelprox.objectives.reduced import ReducedModel, blocks, dense_entries, is_dense, is_reducible, triangle_of
from levelprox.problem import FeatureProblem
from levelprox.subset.column_cache import shared
from levelprox.subset.fit import Fit
from levelprox.subset.forward import RUNNERS_UP, eliminated_from, forward, largest, least_useful
from levelprox.subset.newton import Proximal, minimised
from levelprox.subset.swaps import SwapSearch

KEPT_ENTRIES = 2**22  # of X, of which a copy may be kept
_MOST_FEATURES = 400  # of models over all features
_SAMPLES_PER_FEATURE = 4  # for each feature
_RIDGE_SHARES = (1e-1, 1e-3)  # of the curvature along each feature at the null fit
_RIDGE_STEPS, _RIDGE_ACCURACY = 12, 1e-3  # of a fit of all features with a ridge, and of ψ
_MODELS_AT_FITS = 8  # at fits of the best set so far
_MOST_BY_ELIMINATION = 10  # features of a set by elimination: of more it takes half as long as all of the search
_REPLACEMENTS = 16  # others that are tried for each of its features
_SINGULAR_SHARE = 1e-10  # of a diagonal of 1
# Of a path of softmax models: entries of X, and of an array with a column for each feature and class; coordinates, of
# all features and of a set.
_PATH_ENTRIES, _PATH_PRODUCTS = 2**22, 2**24
_PATH_COORDINATES, _PATH_SET_COORDINATES = 2**15, 1024
_BY_THEMSELVES, _BY_FORWARD_SELECTION = 64, 64  # features of W that gain most
_CONSTANT_SHARE = 1e-20  # of the square of a column: less is left of it by rounding of its mean


def has_gram(problem: FeatureProblem) -> bool:
    """Return whether ψ is a parabola without signs, whose Gram matrix leads to sets."""
    objective = problem.objective
    squared = isinstance(objective, LinearModel) and isinstance(objective.loss, Squared)
    return squared and not np.any(problem.must_be_nonnegative())


def has_class_path(problem: FeatureProblem, k: int) -> bool:
    """Return whether sets of k features of a softmax model come from a path over its columns side by side."""
    objective = problem.objective
    if not isinstance(objective, MultinomialModel) or np.any(problem.must_be_nonnegative()):
        return False
    (n, d), K = objective.design.shape, objective.n_outputs
    small = n * d <= _PATH_ENTRIES and n * K * max(d, K) <= _PATH_PRODUCTS
    return small and d * K <= _PATH_COORDINATES and (k + problem.unpenalized.size) * K <= _PATH_SET_COORDINATES


def has_parabolas(problem: FeatureProblem) -> bool:
    """Return whether second-order models over all features are cheap, and say something."""
    objective = problem.objective
    if not isinstance(objective, LinearModel) or isinstance(objective, ReducedModel):
        return False
    n, d = objective.design.shape
    smooth = objective.convex and math.isfinite(objective.self_concordance) and objective.self_concordance > 0
    return (
        smooth
        and d <= _MOST_FEATURES
        and n >= _SAMPLES_PER_FEATURE * (d + 1)
        and not np.any(problem.must_be_nonnegative())
    )


def is_found_by_models(problem: FeatureProblem) -> bool:
    """Return whether sets come from second-order models over all features."""
    return isinstance(problem.objective, ReducedModel) or has_parabolas(problem)


def best_by_parabolas(swaps: SwapSearch, null: Fit, k: int, brief: bool = False) -> Fit:
    """Return the best fit over sets of at most k features that second-order models lead to.

    From the null fit, for a problem that `has_parabolas`. A brief search takes less long for each model, and searches
    models at fits from these fits alone.
    """
    best, tried, known = null, set[bytes](), shared(swaps.problem)
    with known.lock:
        searches = _fixed(swaps, null)
    for place, search in enumerate(searches, 1):
        swaps.monitor.done = place / (len(searches) + 1)
        with known.lock:  # what a search has computed so far is kept for the next k
            features = np.array(search.best(k, None, brief), np.intp)
        if features.tobytes() in tried:
            continue
        tried.add(features.tobytes())
        fit = swaps.fitted(features, best)
        swaps.remember(fit)
        best = fit if fit.psi < best.psi else best
    for _ in range(_MODELS_AT_FITS):
        if swaps.is_perfect(best):
            break
        model = _model_at(swaps, best)
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


def is_lowered_by_elimination(swaps: SwapSearch, k: int) -> bool:
    """Return whether another start leads to a lower fit than the best one; it is tried once, at the end of a search."""
    best = swaps.best
    if not 2 <= k <= _MOST_BY_ELIMINATION:
        return False
    swaps.has_tried_elimination = True
    for fit in swaps.monitor.once(partial(best_by_elimination, swaps, best, k)):
        if swaps.lowers(swaps.improved(fit), best):
            return True
    swaps.best = best
    return False


def best_by_elimination(swaps: SwapSearch, first: Fit, k: int) -> list[Fit]:
    """Return a fit over k of the 2k features that the model at another fit leads to, unless it is the same set.

    The least useful ones are left out, unless the model at the fit of all leads to the same set at once; then each
    feature is replaced in turn by the one that lowers ψ most, of those that gain most by their slope and curvature
    alone. For a problem that `has_parabolas`.
    """
    problem, model = swaps.problem, _model_at(swaps, first)
    if model is None:
        return []
    features = np.array(model.best(min(2 * k, problem.n_counted), first.features.tolist(), True), np.intp)
    fit = swaps.roughly(problem.with_unpenalized(features), first)
    without = np.delete(fit.features, least_useful(swaps, fit, problem.counted(fit.features).size - k))
    same = np.array_equal(without, first.features)  # then more refits most often lead there as well
    fit = first if same else eliminated_from(swaps, fit, k, by_halves=True)
    if np.array_equal(fit.features, first.features):
        return []
    for leaves in problem.counted(fit.features).tolist():
        fit = _replaced(swaps, fit, leaves)
    return [fit]


def _replaced(swaps: SwapSearch, fit: Fit, leaves: int) -> Fit:
    """Return the fit after the swap of one feature for the best of a few others, if that lowers ψ."""
    less = swaps.fitted(np.setdiff1d(fit.features, [leaves]).astype(np.intp), fit)
    curvature = cast(LinearModel, swaps.objective).hessian_diagonal_of(less.margins, True)
    possible = swaps.outside(less) & (curvature > 0)
    possible[leaves] = False
    gain = np.where(possible, swaps.gradient(less) ** 2 / np.where(possible, curvature, 1.0), 0.0)
    best = swaps.best_of(less, largest(gain, _REPLACEMENTS), less.psi - fit.psi)
    if best is None:
        return fit
    new = swaps.fitted(np.union1d(less.features, [best]).astype(np.intp), less)
    return new if swaps.lowers(new, fit) else fit


def _fixed(swaps: SwapSearch, null: Fit) -> list[_kernels.GramSearch]:
    """Return the models at points that do not depend on k."""
    known = shared(swaps.problem)
    if known.models is None:
        objective = cast(LinearModel, swaps.objective)
        small = objective.design.shape[0] * objective.dimension <= KEPT_ENTRIES
        if known.entries is None and small and is_dense(objective.design):
            known.entries = dense_entries(objective.design)
        before = swaps.n_grad
        known.models = _models(swaps, objective, null)
        known.n_grad, swaps.n_grad = swaps.n_grad - before, before
    swaps.n_grad += known.n_grad  # whichever k made them: counts do not depend on other k
    return known.models


def _hessian(problem: FeatureProblem, z: Vector) -> Matrix:
    objective, entries = cast(LinearModel, problem.objective), shared(problem).entries
    if entries is None:
        return objective.hessian_of(z, True)
    rows = np.sqrt(objective.bend_of(z, True))[:, None] * entries
    return objective.bent_by_ridge(np.asarray(rows.T @ rows))


def _models(swaps: SwapSearch, objective: LinearModel, null: Fit) -> list[_kernels.GramSearch]:
    x, z = swaps.problem.spread(null.features, null.x), null.margins
    models, hessian_of = [_model(swaps.problem, x, z)], partial(_hessian, swaps.problem)
    curvature = objective.hessian_diagonal_of(z, True)
    for ridge in _RIDGE_SHARES:
        penalty = ridge * curvature
        penalty[null.features] = 0.0
        F = Proximal(objective, np.diag(penalty), hessian_of=hessian_of)
        found = minimised(F, x, _RIDGE_ACCURACY / 2, most=_RIDGE_STEPS, check=swaps.check_time)
        swaps.n_grad += found.n_steps
        x, z = found.x, found.margins
        models.append(_model(swaps.problem, x, z))
    return [model for model in models if model is not None]


def _model_at(swaps: SwapSearch, fit: Fit) -> _kernels.GramSearch | None:
    """Return the model at a fit; that of the last fit is kept."""
    swaps.check_time()
    swaps.n_grad += 1
    if swaps.latest_model is None or swaps.latest_model[0] is not fit:
        x = swaps.problem.spread(fit.features, fit.x)
        swaps.latest_model = fit, _model(swaps.problem, x, fit.margins)
    return swaps.latest_model[1]


def _model(problem: FeatureProblem, x: Vector, z: Vector) -> _kernels.GramSearch | None:
    """Return what searches by the second-order model at x with margins z; None where it is no parabola."""
    gradient = cast(LinearModel, problem.objective).gradient_of(z)
    return search_by_model(gradient, _hessian(problem, z), x, problem.unpenalized)


def search_by_model(gradient: Vector, hessian: Matrix, x: Vector, kept: Features) -> _kernels.GramSearch | None:
    """Return what searches by a second-order model at x; None where it is no parabola."""
    diagonal = np.diagonal(hessian)
    if not (np.all(np.isfinite(hessian)) and np.all(np.isfinite(gradient)) and np.any(diagonal > 0)):
        return None
    unit = _units(diagonal)
    gram, pull = unit[:, None] * hessian * unit, unit * (hessian @ x - gradient)
    try:
        least = float(pull @ np.linalg.solve(gram + _SINGULAR_SHARE * np.eye(x.size), pull))
    except np.linalg.LinAlgError:
        return None
    square = (1 + 1e-6) * least if least > 0 else 1.0
    return _kernels.GramSearch(np.ascontiguousarray(gram), np.ascontiguousarray(pull), square, _mask(kept, x.size))


def can_be_narrowed(problem: FeatureProblem) -> bool:
    """Return whether sets may come from second-order models over some of the features."""
    objective = problem.objective
    curved = isinstance(objective, LinearModel) and objective.convex and objective.curved
    return curved and not np.any(problem.must_be_nonnegative())


def best_by_narrowing(swaps: SwapSearch, null: Fit, k: int) -> Fit:
    """Return the best fit by second-order models over W, from the null fit; for a problem that `can_be_narrowed`."""
    known = shared(swaps.problem)
    with known.lock:
        length = _BY_FORWARD_SELECTION
        while length < k:
            length *= 2
        if length not in known.narrowed:
            features = _most_useful(swaps, null, length)
            known.narrowed[length] = features, swaps.problem.restrict(features)
        features, part = known.narrowed[length]
        inner = _over(swaps, part, features, null)
        fit = best_by_parabolas(inner, inner.best, k, brief=True)
    swaps.n_grad += inner.n_grad
    swaps.n_refits += inner.n_refits
    return replace(fit, features=features[fit.features])


def _most_useful(swaps: SwapSearch, null: Fit, length: int) -> Features:
    """Return W, for k up to `length`."""
    problem, found = swaps.problem, [null.features]
    estimates = swaps.estimates(null)
    found.append(largest(estimates.additions(), length // _BY_FORWARD_SELECTION * _BY_THEMSELVES))

    def watched(gain: Vector, features: Features) -> Vector:
        taken = features.size - null.features.size
        if taken & (taken - 1) == 0:  # 0, 1, 2, 4, 8, …
            found.append(largest(gain, RUNNERS_UP))
        return gain

    most = min(length, problem.n_features - problem.unpenalized.size, max(swaps.objective.n_margins - 1, 1))
    found.append(forward(swaps, null, most, worth=watched))
    return np.unique(np.concatenate(found)).astype(np.intp)


def _over(swaps: SwapSearch, part: FeatureProblem, features: Features, null: Fit) -> SwapSearch:
    """Return a search by swaps over W."""
    whole, known = swaps.null, shared(part)
    coordinates = swaps.problem.coordinates(features)
    gradient = None if whole.gradient is None else whole.gradient[coordinates]
    known.null = known.null or NullFit(whole.x[coordinates], whole.psi, gradient, whole.scale, whole.curvature)
    start = replace(null, features=np.searchsorted(features, null.features).astype(np.intp))
    how = replace(swaps.how, null=known.null)
    inner = SwapSearch(part, start, known.null, swaps.tolerance, how, columns=known.columns)
    inner.monitor, inner.refits.brief = swaps.monitor, True
    return inner


def _mask(kept: Features, d: int) -> NDArray[np.uint8]:
    """Return which of the first d features are in every set."""
    return np.isin(np.arange(d), kept).astype(np.uint8)


def _units(squares: Vector) -> Vector:
    """Return 1 / √s, and 0 for a column of zeros."""
    return np.where(squares > 0, 1 / np.sqrt(np.where(squares > 0, squares, 1.0)), 0.0)


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
    (n, d), ones = objective.design.shape, objective.unpenalized
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
    unit = _units(squares)
    A = np.ascontiguousarray(A * unit)
    kept, diagonal = _mask(problem.unpenalized, A.shape[1]), (squares > 0).astype(np.float64)
    return _kernels.GramSearch(A, ridge * unit**2, diagonal, b @ A, square, kept)


def _gram_of_columns(swaps: SwapSearch) -> _kernels.GramSearch:
    """Return the search over rows that are products with all columns."""
    objective = cast(LinearModel, swaps.objective)
    z = objective.origin
    squares = objective.hessian_diagonal_of(z, True)
    unit = _units(squares)

    def row(j: int) -> Vector:
        before = swaps.n_grad
        column = swaps.columns_of(Fit(np.array([j], np.intp), np.zeros(1), 0.0, z))[:, 0]
        swaps.n_grad = before  # rows are counted at the end: a resumed search computes some of them again
        return np.asarray(unit[j] * unit * column, np.float64)

    pull, work = -unit * objective.gradient_of(z), float(objective.design.stored)
    kept, diagonal = _mask(swaps.problem.unpenalized, objective.dimension), (squares > 0).astype(np.float64)
    return _kernels.GramSearch(row, work, diagonal, pull, 2 * objective.value_of(z), kept)

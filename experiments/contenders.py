"""Programs that choose at most k features (levelprox, abess, skglm's MCP), or as many as cross-validation selects.

Each takes a planted problem and k and gives the features it chose; their loss is computed by experiments/judge.py
say. abess and skglm are optional: they are imported where they are called.

- abess: with k alone (`support_size=k`); and for the path 1, …, k with warm starts, of which the largest is
  taken (`ic_coef=0`: the information criterion that picks one of the path is then the training loss).
- skglm MCP cut to k: a path of 20 penalties with warm starts, on standardised columns. Every point with between k and
  3k features is cut to its k largest coefficients and refitted by the judge, the best of them counts.
- skglm MCP by cross-validation: five folds, the same 20 penalties; the features at the penalty with the least squared
  error. LassoCV likewise, as scikit-learn has it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold

import levelprox
from experiments.judge import loss_with
from experiments.planted import Planted

Double = NDArray[np.float64]
Indices = NDArray[np.intp]
Contender = Callable[[Planted, int], Indices]

_PENALTIES, _RANGE = 20, 0.05  # how many, and the least as a share of the largest
#: MCP's γ: three times what keeps ψ convex in each standardised feature, where the loss has curvature 1 or at most ¼.
_GAMMA = {"squared": 3.0, "logistic": 12.0}
_FOLDS = 5
_CLAIM = 1e-6  # by how much the loss a method reports may differ from the judge's


class WrongClaimError(Exception):
    """What came back is not what it says."""


def by_levelprox(problem: Planted, k: int) -> Indices:
    """`best_subset`, whose claims are checked: at most k features, and the loss it reports."""
    recipe = problem.recipe
    model = levelprox.LinearModel(problem.X, problem.b, recipe.loss, fit_intercept=True)
    found = levelprox.best_subset(model, k)
    chosen = np.flatnonzero(found.x[: recipe.d])
    if chosen.size > k:
        raise WrongClaimError(f"{chosen.size} features, at most {k} allowed")
    judged = loss_with(problem.X, problem.b, recipe.loss, chosen)
    # If the features separate two classes the judge returns 0, which no coefficients reach.
    if judged > 0 and abs(found.psi - judged) > _CLAIM * judged:
        raise WrongClaimError(f"reports a loss of {found.psi!r}, the judge finds {judged!r} with its features")
    return chosen


def by_abess(problem: Planted, k: int) -> Indices:
    """abess with k alone."""
    return _abess(problem, support_size=k)


def by_abess_path(problem: Planted, k: int) -> Indices:
    """abess with 1, …, k; the largest is used."""
    return _abess(problem, support_size=range(1, k + 1), ic_coef=0.0)


def _abess(problem: Planted, **settings: object) -> Indices:
    import abess

    logistic = problem.recipe.loss == "logistic"
    model = (abess.LogisticRegression if logistic else abess.LinearRegression)(**settings)
    model.fit(problem.X, (problem.b > 0).astype(int) if logistic else problem.b)
    return np.flatnonzero(np.ravel(model.coef_))


def by_skglm_cut(problem: Planted, k: int) -> Indices:
    """Return the best of the path's points with between k and 3k features, cut to k."""
    X, b, loss = problem.X, problem.b, problem.recipe.loss
    Z = _standardised(X)
    cuts, last = [], np.zeros(0)
    for w, _ in _skglm_path(Z, b, loss, _penalties(Z, b, loss)):
        last, count = w, np.count_nonzero(w)
        if count >= k:
            cuts.append(_largest(w, k))
        if count > 3 * k:
            break
    cuts = cuts or [_largest(last, k)]
    return min(cuts, key=lambda chosen: loss_with(X, b, loss, chosen))


def by_skglm_cv(problem: Planted, k: int) -> Indices:
    """Return the features at the penalty with the least cross-validated error."""
    Z, b = _standardised(problem.X), problem.b
    penalties = _penalties(Z, b, "squared")
    errors = np.zeros(_PENALTIES)
    for train, test in KFold(_FOLDS, shuffle=True, random_state=0).split(Z):
        path = _skglm_path(np.asfortranarray(Z[train]), b[train], "squared", penalties)
        errors += [np.sum((b[test] - Z[test] @ w - intercept) ** 2) for w, intercept in path]
    best = int(np.argmin(errors))
    *_, (w, _) = _skglm_path(Z, b, "squared", penalties[: best + 1])
    return np.flatnonzero(w)


def by_lasso_cv(problem: Planted, k: int) -> Indices:
    """scikit-learn's LassoCV."""
    from sklearn.linear_model import LassoCV

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the least penalties do not converge
        model = LassoCV(cv=KFold(_FOLDS, shuffle=True, random_state=0)).fit(_standardised(problem.X), problem.b)
    return np.flatnonzero(model.coef_)


def _standardised(X: Double) -> Double:
    return np.asfortranarray((X - X.mean(axis=0)) / X.std(axis=0))


def _penalties(Z: Double, b: Double, loss: str) -> Double:
    """From the least that leaves no feature (at the mean of b, for either loss) downwards."""
    slopes = np.abs(Z.T @ (b - b.mean())) / len(b)
    largest = slopes.max() * (1.0 if loss == "squared" else 0.5)
    return np.geomspace(largest, _RANGE * largest, _PENALTIES)


def _skglm_path(Z: Double, b: Double, loss: str, penalties: Double) -> Iterator[tuple[Double, float]]:
    """Coefficients and intercept at each penalty, each start the solution before."""
    from skglm.datafits import Logistic, Quadratic
    from skglm.penalties import MCPenalty
    from skglm.solvers import AndersonCD

    datafit = Quadratic() if loss == "squared" else Logistic()
    solver = AndersonCD(tol=1e-4, fit_intercept=True, warm_start=True)
    w, z = None, None
    for penalty in penalties:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            w = solver.solve(Z, b, datafit, MCPenalty(penalty, _GAMMA[loss]), w, z)[0]
        z = Z @ w[:-1] + w[-1]
        yield w[:-1].copy(), float(w[-1])


def _largest(w: Double, k: int) -> Indices:
    """Return the places of the k largest, in order."""
    count = min(k, np.count_nonzero(w))
    return np.sort(np.argsort(-np.abs(w), kind="stable")[:count])


CONTENDERS: dict[str, Contender] = {
    "levelprox": by_levelprox,
    "abess": by_abess,
    "abess path": by_abess_path,
    "skglm MCP": by_skglm_cut,
    "skglm MCP CV": by_skglm_cv,
    "LassoCV": by_lasso_cv,
}

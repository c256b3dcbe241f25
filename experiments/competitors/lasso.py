"""The Lasso, as scikit-learn's linear models have it.

    logistic   min ‖x‖₁ + C Σ_i log(1 + exp(−b_i⟨a_i, x⟩))          {"C": C}, liblinear
    squared    min (1/2n) Σ_i (b_i − ⟨a_i, x⟩)² + α‖x‖₁             {"alpha": α}, coordinate descent

In the units of ψ the weight of ‖x‖₁ is 1/(nC) and 2α.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn import linear_model
from sklearn.svm import l1_min_c

from experiments import paper
from experiments.competitors.base import Competitor, Fit, Point, Samples, Vector, noted

#: Up to how many features of dense data a Gram matrix pays: it is computed once for all points.
_MOST_FOR_GRAM = 2000


def logistic_grid(train: Samples) -> list[Point]:
    """Return the paper's grid: C = C₀·10^(1 + 2k/3), k = 0, …, 9, C₀ the least with a nonzero coefficient."""
    least = float(l1_min_c(train.X, train.b, loss="log", fit_intercept=False))
    return [{"C": least * 10**power} for power in paper.LASSO_POWERS]


class Lasso(Competitor):
    """{"C": C} for the logistic loss, {"alpha": α} for the squared one, in scikit-learn's units.

    Squared losses start where the last point ended and, for dense data with more samples than features, use the Gram
    matrix, computed once; its seconds are the first fit's. liblinear has no warm starts.

    Parameters
    ----------
    max_iter : int
        The paper's 2000.
    tol : float, optional
        scikit-learn's own where it is left out.
    """

    name: ClassVar[str] = "Lasso"
    package: ClassVar[str] = "sklearn"

    def __init__(self, max_iter: int = 2000, tol: float = 1e-4) -> None:
        self.max_iter, self.tol = max_iter, tol

    def fits(self, train: Samples, points: Sequence[Point]) -> Iterator[Fit]:
        """Yield a fit for each point."""
        return self._logistic(train, points) if train.loss == "logistic" else self._squared(train, points)

    def _logistic(self, train: Samples, points: Sequence[Point]) -> Iterator[Fit]:
        for point in points:
            model = linear_model.LogisticRegression(
                l1_ratio=1.0,
                C=point["C"],
                solver="liblinear",
                fit_intercept=False,
                tol=self.tol,
                max_iter=self.max_iter,
                random_state=0,
            )
            yield _fitted(model, point, train.X, train.b, time.perf_counter())

    def _squared(self, train: Samples, points: Sequence[Point]) -> Iterator[Fit]:
        began = time.perf_counter()
        X = train.by_columns()
        n, d = X.shape
        model = linear_model.Lasso(
            fit_intercept=False,
            precompute=X.T @ X if not train.sparse and d <= min(n, _MOST_FOR_GRAM) else False,
            copy_X=False,  # without an intercept nothing is written to it
            tol=self.tol,
            max_iter=self.max_iter,
            warm_start=True,
        )
        for point in points:
            yield _fitted(model.set_params(alpha=point["alpha"]), point, X, train.b, began)
            began = time.perf_counter()


def _fitted(model: Any, point: Point, X: Any, b: Vector, began: float) -> Fit:
    with noted() as notes:
        model.fit(X, b)
    x = np.array(model.coef_, np.float64).ravel()
    return Fit(point, x, time.perf_counter() - began, int(np.max(model.n_iter_)), "; ".join(notes))

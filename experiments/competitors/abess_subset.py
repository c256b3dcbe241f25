"""abess: splicing for the best subset of k features.

    min ψ(x)   s.t.   at most k nonzeros                {"k": k}

J. Zhu, C. Wen, J. Zhu, H. Zhang and X. Wang (2020), "A polynomial algorithm for best-subset selection problem", PNAS.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from experiments.competitors.base import Competitor, Fit, Point, Samples, noted


def _varying(train: Samples) -> NDArray[np.intp]:
    """Return the columns that have two different values."""
    low, high = train.X.min(axis=0), train.X.max(axis=0)
    if train.sparse:
        low, high = low.toarray(), high.toarray()
    return np.flatnonzero(np.ravel(low) < np.ravel(high))


class Abess(Competitor):
    """abess with k alone, without an intercept if its version supports that; otherwise the intercept is in the fit.

    Columns are normalised inside, which is its default, and coefficients come back in the units of X. The weight of its
    information criterion is 0, so that k features are what it returns. It rejects constant columns: they are left out.

    Parameters
    ----------
    max_iter : int
        Rounds of swaps for one k, of which it needs a few.
    """

    name: ClassVar[str] = "abess"
    package: ClassVar[str] = "abess"

    def __init__(self, max_iter: int = 100) -> None:
        self.max_iter = max_iter

    def fits(self, train: Samples, points: Sequence[Point]) -> Iterator[Fit]:
        """Yield a fit for each point."""
        self.ready()
        target = (train.b > 0).astype(np.float64) if train.loss == "logistic" else train.b
        varying = _varying(train)
        X = train.X if varying.size == train.X.shape[1] else train.X[:, varying]
        for point in points:
            began = time.perf_counter()
            model = self._model(train.loss, min(int(point["k"]), varying.size))
            with noted() as notes:
                model.fit(X, target)
            intercept = float(np.ravel(model.intercept_)[0])
            if intercept:
                notes.append(f"intercept {intercept:.6g}")
            x = np.zeros(train.X.shape[1])
            x[varying] = np.ravel(model.coef_)
            # How many rounds it took it does not tell.
            yield Fit(point, x, time.perf_counter() - began, 0, "; ".join(notes), intercept)

    def _model(self, loss: str, k: int) -> Any:
        import abess

        kind = abess.LogisticRegression if loss == "logistic" else abess.LinearRegression
        settings = {"support_size": k, "ic_coef": 0.0, "max_iter": self.max_iter, "thread": 1}
        if "fit_intercept" in inspect.signature(kind.__init__).parameters:
            settings["fit_intercept"] = False
        return kind(**settings)

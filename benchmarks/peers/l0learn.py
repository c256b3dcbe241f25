"""L0Learn's engine (fastsparsegams): coordinate descent on ℓ0-penalised losses along a path of λ, with an intercept.

It has no fit for one k: its path stops after the first support with more than `max_support_size` features. The answer
for k is the last support of the path with at most k features, refitted by the judge like every other.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse

from benchmarks.datasets import Dataset
from benchmarks.peers.base import Ask, Fit, Peer, Vector


class _L0Learn(Peer):
    package = "fastsparsegams"
    by_columns = True
    algorithm = "CD"

    def fit(self, data: Dataset, ask: Ask, start: Vector | None) -> Fit:
        import fastsparsegams

        largest = ask["k"] if "k" in ask else max(ask["ks"])
        path = fastsparsegams.fit(
            data.X,
            data.b,
            loss="Logistic" if data.loss == "logistic" else "SquaredError",
            algorithm=self.algorithm,
            max_support_size=largest,
        )
        ks = [ask["k"]] if "k" in ask else ask["ks"]
        coefficients = scipy.sparse.csc_matrix(path.coeffs[0])
        sizes = np.diff(coefficients.indptr)
        rows = [self._row(coefficients, np.ravel(path.intercepts[0]), sizes, k) for k in ks]
        return Fit(np.concatenate(rows), f"{sizes.size} values of λ")

    @staticmethod
    def _row(coefficients: scipy.sparse.csc_matrix, intercepts: Vector, sizes: Vector, k: int) -> Vector:
        """Return the last point of the path with at most k features, the intercept last."""
        within = np.flatnonzero(sizes <= k)
        index = int(within[np.argmax(sizes[within])]) if within.size else 0
        return np.append(coefficients[:, [index]].toarray().ravel(), intercepts[index])


class CoordinateDescent(_L0Learn):
    """Coordinate descent alone, the default of the package."""


class LocalSearch(_L0Learn):
    """Coordinate descent and swaps of single features."""

    algorithm = "CDPSI"


KINDS = {"l0learn": CoordinateDescent, "l0learn swaps": LocalSearch}

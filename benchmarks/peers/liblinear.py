"""liblinear's ℓ1 logistic regression, as scikit-learn has it; without an intercept, which it would penalise.

min ‖x‖₁ + C Σ_i log(1 + exp(−b_i z_i))
"""

from __future__ import annotations

import numpy as np

from benchmarks.datasets import Dataset
from benchmarks.peers.base import Ask, Fit, Peer, Vector


class Liblinear(Peer):
    """ψ + λ‖x‖₁; `tol` is liblinear's own."""

    package = "sklearn.linear_model"
    distribution = "scikit-learn"

    def refuses(self, data: Dataset, ask: Ask) -> str | None:
        """Return the reason if the case is not supported."""
        return None if data.loss == "logistic" else "logistic loss only"

    def fit(self, data: Dataset, ask: Ask, start: Vector | None) -> Fit:
        """Fit the data."""
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(
            l1_ratio=1.0,
            C=1 / (data.b.size * ask["penalty"]["lam"]),
            solver="liblinear",
            fit_intercept=False,
            tol=ask["own_tol"],
            max_iter=10_000,
            random_state=0,
        )
        model.fit(data.X, data.b)
        return Fit(np.ravel(model.coef_))


KINDS = {"liblinear": Liblinear}

"""celer: ℓ1 by working sets and dual extrapolation; its logistic regression has no intercept.

min Σ_i log(1 + exp(−b_i z_i)) + ‖x‖₁/C,   min ‖b − Xx‖²/(2n) + α‖x‖₁
"""

from __future__ import annotations

import numpy as np

from benchmarks.datasets import Dataset
from benchmarks.peers.base import Ask, Fit, Peer, Vector


class Celer(Peer):
    """ψ + λ‖x‖₁; `tol` is celer's own."""

    package = "celer"
    by_columns = True

    def fit(self, data: Dataset, ask: Ask, start: Vector | None) -> Fit:
        """Fit the data."""
        from celer import Lasso, LogisticRegression

        lam = ask["penalty"]["lam"]
        if data.loss == "logistic":
            model = LogisticRegression(C=1 / (data.b.size * lam), tol=ask["own_tol"], max_iter=200)
        else:
            model = Lasso(alpha=lam / 2, fit_intercept=False, tol=ask["own_tol"], max_iter=200)
        model.fit(data.X, data.b)
        return Fit(np.ravel(model.coef_))


KINDS = {"celer": Celer}

"""adelie: ℓ1 by coordinate descent with screening, dense data, no intercept here.

min ‖b − Xx‖²/(2n) + λ‖x‖₁,   min (1/n) Σ_i log(1 + exp(−b_i z_i)) + λ‖x‖₁
"""

from __future__ import annotations

import numpy as np

from benchmarks.datasets import Dataset
from benchmarks.peers.base import Ask, Fit, Peer, Vector


class Adelie(Peer):
    """ψ + λ‖x‖₁; `tol` is adelie's own."""

    package = "adelie"
    by_columns = True

    def refuses(self, data: Dataset, ask: Ask) -> str | None:
        """Refuse sparse data: its sparse matrices have another interface for each loss."""
        return "dense data only here" if data.sparse else None

    def fit(self, data: Dataset, ask: Ask, start: Vector | None) -> Fit:
        """Fit the data."""
        import adelie

        lam = ask["penalty"]["lam"]
        if data.loss == "logistic":
            glm = adelie.glm.binomial(y=(data.b > 0).astype(float))
        else:
            glm, lam = adelie.glm.gaussian(y=data.b), lam / 2
        state = adelie.grpnet(
            X=data.X,
            glm=glm,
            lmda_path=np.array([lam]),
            intercept=False,
            tol=ask["own_tol"],
            early_exit=False,
            progress_bar=False,
            n_threads=1,
        )
        return Fit(np.ravel(state.betas[-1].toarray()))


KINDS = {"adelie": Adelie}

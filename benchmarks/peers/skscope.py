"""skscope: splicing for any differentiable loss, written in JAX; dense data only, in float64."""

from __future__ import annotations

import numpy as np

from benchmarks.datasets import Dataset
from benchmarks.peers.base import Ask, Fit, Peer, Vector, column_scales, scaled

LARGEST = 3 * 2**29  # bytes of X as a dense array


class Skscope(Peer):
    """Its ScopeSolver; the intercept is always selected. Columns have unit size, for its L-BFGS."""

    package = "skscope"

    def refuses(self, data: Dataset, ask: Ask) -> str | None:
        """Return the reason if the case is not supported."""
        size = 8 * data.X.shape[0] * data.X.shape[1]
        return f"dense data only: {size / 2**30:.1f} GiB" if size > LARGEST else None

    def fit(self, data: Dataset, ask: Ask, start: Vector | None) -> Fit:
        """Fit the data."""
        import jax.numpy as jnp
        from skscope import ScopeSolver

        X = scaled(data.X, column_scales(data.X))
        A, b = jnp.asarray(X.toarray() if data.sparse else X), jnp.asarray(data.b)
        d = A.shape[1]
        logistic = data.loss == "logistic"

        def objective(params):  # type: ignore[no-untyped-def]
            z = A @ params[:d] + params[d]
            return jnp.mean(jnp.logaddexp(0.0, -b * z) if logistic else (b - z) ** 2)

        solver = ScopeSolver(d + 1, sparsity=ask["k"] + 1, sample_size=data.b.size, preselect=[d])
        return Fit(np.asarray(solver.solve(objective, jit=True), dtype=np.float64))


KINDS = {"skscope": Skscope}

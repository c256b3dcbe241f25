"""abess: splicing for the best subset of k features, with an intercept.

Run for k alone, or for 1..k, where warm starts from smaller supports change its result; a coefficient of 0 for its
information criterion makes it return the best fit, not the most modest one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.datasets import Dataset
from benchmarks.peers.base import Ask, Fit, Peer, Vector


class _Abess(Peer):
    package = "abess"

    def sizes(self, k: int) -> Any:
        """Return the support sizes."""
        return k

    def fit(self, data: Dataset, ask: Ask, start: Vector | None) -> Fit:
        from abess import LinearRegression, LogisticRegression

        kind = LogisticRegression if data.loss == "logistic" else LinearRegression
        model = kind(support_size=self.sizes(ask["k"]), ic_coef=0.0, thread=1)
        model.fit(data.X, (data.b > 0).astype(float) if data.loss == "logistic" else data.b)
        return Fit(np.append(np.ravel(model.coef_), model.intercept_))


class AbessAlone(_Abess):
    """abess with k alone."""


class AbessPath(_Abess):
    """abess with 1..k."""

    def sizes(self, k: int) -> Any:
        """Return the support sizes."""
        return range(1, k + 1)


class AbessEachSize(_Abess):
    """abess for each k of a path; it returns one support for a call, so a path is a call for each k."""

    def fit(self, data: Dataset, ask: Ask, start: Vector | None) -> Fit:
        """Fit the data."""
        fits = [super(AbessEachSize, self).fit(data, {"k": k}, None) for k in ask["ks"]]
        return Fit(np.concatenate([fit.coefficients for fit in fits]))


KINDS = {"abess k": AbessAlone, "abess 1..k": AbessPath, "abess path": AbessEachSize}

"""What a competitor is: a name, a version, the cases it takes, and a fit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from importlib import import_module, metadata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import Dataset

Vector = NDArray[np.float64]
Ask = dict[str, Any]


@dataclass(frozen=True)
class Fit:
    """Coefficients, the intercept last if there is one; and further figures."""

    coefficients: Vector
    note: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


class Peer(ABC):
    """A competitor.

    An ask has some of: `penalty` {"name", "lam", "theta"}, `level` η, `k`, `intercept`, `tol` (relative to the gradient
    of the null fit), `warm_start` (from the fit before). Losses are means over samples, squared ones without 1/2:
    each file translates into its peer's units.
    """

    package: str  #: the module to import, which has the version
    distribution: str = ""  #: where it is called otherwise
    by_columns: bool = False  #: its preferred storage

    def load(self) -> None:
        """Import it; ImportError where it is not installed."""
        import_module(self.package)

    @property
    def version(self) -> str:
        """As installed."""
        return metadata.version(self.distribution or self.package)

    def refuses(self, data: Dataset, ask: Ask) -> str | None:
        """Why it cannot take a case; None where it can."""
        return None

    @abstractmethod
    def fit(self, data: Dataset, ask: Ask, start: Vector | None) -> Fit:
        """One fit from nothing, or from `start`."""

    def small_ask(self, ask: Ask) -> Ask:
        """Return the same kind of fit for a small problem, which triggers compilation."""
        small = {key: value for key, value in ask.items() if key != "warm_start"}
        if "penalty" in ask:
            small["penalty"] = {**ask["penalty"], "lam": 0.1}
        if "level" in ask:
            small["level"] = 0.02
        if "levels" in ask:
            small["levels"] = [0.02, 0.04]
        if "k" in ask:
            small["k"] = 2
        if "ks" in ask:
            small["ks"] = [1, 2]
        return small


def column_scales(X: Any) -> Vector:
    """Return the root mean square of each column; 1 where that is 0."""
    squares = X.multiply(X).sum(axis=0) if hasattr(X, "multiply") else np.einsum("ij,ij->j", X, X)
    scales = np.sqrt(np.asarray(squares, dtype=np.float64).ravel() / X.shape[0])
    return np.where(scales > 0, scales, 1.0)


def scaled(X: Any, scales: Vector) -> Any:
    """Return a copy of X with columns divided by their scales, in the same storage."""
    if not hasattr(X, "multiply"):
        return np.asarray(X / scales, order="F" if X.flags.f_contiguous else "C")
    import scipy.sparse

    product = X @ scipy.sparse.diags(1 / scales)
    return product.tocsc() if X.format == "csc" else product.tocsr()

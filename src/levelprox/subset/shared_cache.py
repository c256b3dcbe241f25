"""What searches of the same data for different k share: nothing of it depends on which k are fitted.

It is kept with the design, and goes with it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from levelprox import _kernels
from levelprox.certificate.null_model import NullFit
from levelprox.objectives import LinearModel
from levelprox.problem import Problem
from levelprox.subset.column_cache import Columns

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Features = NDArray[np.intp]

_NAME, _MOST = "_shared_by_searches", 8  # the attribute of a design, and how many ψ over it are kept there


@dataclass(eq=False)
class Shared:
    """What searches of the same data share.

    Attributes
    ----------
    objective : LinearModel
        ψ.
    key : bytes
        The features that never count, and the ridge.
    columns : Columns
    null : NullFit or None
        Once it is known.
    models : list of GramSearch or None
        Second-order models at points that do not depend on k (`parabolas.py`).
    entries : ndarray of shape (n, d) or None
        The columns, where X is small.
    n_grad : int
        Passes over all features that the models have taken.
    narrowed : dict of int to (ndarray of int, Problem)
        Some of the features, and the problem over these (`narrowed.py`).
    path : ClassPath or None
        Of a softmax model (`class_path.py`).
    lock : RLock
        Of those who change any of it: searches may run in several threads.
    """

    objective: LinearModel
    key: bytes
    columns: Columns
    null: NullFit | None = None
    models: list[_kernels.GramSearch] | None = None
    entries: Matrix | None = None
    n_grad: int = 0
    narrowed: dict[int, tuple[Features, Problem]] = field(default_factory=dict)
    path: Any = None
    lock: threading.RLock = field(default_factory=threading.RLock)

    def is_of(self, objective: LinearModel, key: bytes) -> bool:
        """Return whether this is about the same ψ over the same design."""
        own, other = self.objective, objective
        same = own.target is other.target and own.sample_weight is other.sample_weight and own.offset is other.offset
        return same and own.loss == other.loss and self.key == key


class _Kept(list[Shared]):
    """What is kept with a design; a copy in another process has none of it."""

    def __reduce__(self) -> tuple[type[_Kept], tuple[()]]:
        return _Kept, ()


def forget(objective: object) -> None:
    """Drop what searches of an objective share: it holds the design, which is else kept until garbage is collected."""
    getattr(getattr(objective, "design", None), "__dict__", {}).pop(_NAME, None)


def shared(problem: Problem) -> Shared:
    """Return what searches of a problem share; ψ is a loss of linear predictions."""
    objective = cast(LinearModel, problem.objective)
    ridge = b"" if objective.ridge is None else objective.ridge.own.tobytes()
    key = problem.exempt.tobytes() + b"|" + ridge
    kept: _Kept = objective.design.__dict__.setdefault(_NAME, _Kept())
    for one in kept:
        if one.is_of(objective, key):
            return one
    new = Shared(objective, key, Columns(objective))
    new.entries = next((one.entries for one in kept if one.entries is not None), None)  # of X alone
    kept[:] = [*kept[1 - _MOST :], new]
    return new

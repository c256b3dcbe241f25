"""Where samples are that are not in this process's memory, and how they become a ψ that is asked for in rounds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from levelprox._typing import Vector
from levelprox.backends._base import RemoteObjective
from levelprox.backends.partition import Form
from levelprox.backends.statistics import Statistics
from levelprox.losses import Loss


class DataSource(ABC):
    """X, targets and weights, wherever they are.

    Attributes
    ----------
    n_features : int
    dtype : dtype
        Of X.
    names : list of str or None
        Of the columns, where X has some.
    """

    n_features: int
    dtype: np.dtype[Any]
    names: list[str] | None = None

    @abstractmethod
    def statistics(self, loss: Loss, labels: bool, with_moments: bool) -> Statistics:
        """What must be known before there is a model; X and y are checked on the way."""

    @abstractmethod
    def spread(self, total: float) -> float:
        """Σ s |y − median| / Σ s."""

    @abstractmethod
    def model(self, form: Form) -> RemoteObjective:
        """ψ of these samples."""

    @abstractmethod
    def weighted(self, classes: NDArray[Any], factors: Vector) -> Self:
        """The same samples, their weights multiplied by a factor for their class."""

    @abstractmethod
    def part(self, fold: int, folds: int, seed: int, held_out: bool) -> Self:
        """The samples of one fold, or all others: those of a weight of 0 do not count.

        Which fold a sample is in depends on the seed, its chunk and its place there alone.
        """

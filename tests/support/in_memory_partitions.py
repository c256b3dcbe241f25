"""Samples in parts that are all in memory: partitions without a cluster or files, and rounds that can be counted."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from levelprox.backends.partition import Partition
from levelprox.backends.partitioned import PartitionedSource
from levelprox.designs import as_design


class InMemory(PartitionedSource):
    """A list of partitions."""

    def __init__(self, partitions: list[Partition], n_features: int, dtype: Any = np.float64) -> None:
        self.partitions, self.n_features, self.dtype = partitions, n_features, np.dtype(dtype)
        self.rounds = 0

    @classmethod
    def cut(cls, X: Any, y: Any, parts: int, weight: Any = None, offset: Any = None) -> InMemory:
        """Rows in so many parts of about the same size."""
        rows = np.array_split(np.arange(X.shape[0]), parts)
        partitions = [
            Partition(
                i,
                as_design(X[r]),
                y[r],
                None if weight is None else weight[r],
                None if offset is None else offset[r],
            )
            for i, r in enumerate(rows)
        ]
        return cls(partitions, X.shape[1], X.dtype)

    def total(self, work: Any) -> Any:
        self.rounds += 1
        return functools.reduce(operator.add, [work(partition) for partition in self.partitions if partition.total > 0])

    def transformed(self, change: Any) -> InMemory:
        return InMemory([change(partition) for partition in self.partitions], self.n_features, self.dtype)

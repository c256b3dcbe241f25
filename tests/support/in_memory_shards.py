"""Samples in parts that are all in memory: shards without a cluster or files, and rounds that can be counted."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from levelprox.backends.partition import Shard
from levelprox.backends.partitioned import Shards
from levelprox.designs import as_design


class InMemory(Shards):
    """A list of shards."""

    def __init__(self, shards: list[Shard], n_features: int, dtype: Any = np.float64) -> None:
        self.shards, self.n_features, self.dtype = shards, n_features, np.dtype(dtype)
        self.rounds = 0

    @classmethod
    def cut(cls, X: Any, y: Any, parts: int, weight: Any = None, offset: Any = None) -> InMemory:
        """Rows in so many parts of about the same size."""
        rows = np.array_split(np.arange(X.shape[0]), parts)
        shards = [
            Shard(
                i,
                as_design(X[r]),
                y[r],
                None if weight is None else weight[r],
                None if offset is None else offset[r],
            )
            for i, r in enumerate(rows)
        ]
        return cls(shards, X.shape[1], X.dtype)

    def total(self, work: Any) -> Any:
        self.rounds += 1
        return functools.reduce(operator.add, [work(shard) for shard in self.shards if shard.total > 0])

    def changed(self, change: Any) -> InMemory:
        return InMemory([change(shard) for shard in self.shards], self.n_features, self.dtype)

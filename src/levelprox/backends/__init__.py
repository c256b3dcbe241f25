"""Data outside the memory of this process: Dask, files read in chunks, GPUs."""

from levelprox.backends._base import RemoteObjective
from levelprox.backends.partitioned import PartitionedModel
from levelprox.backends.query import PartialSums, Query, Traffic

__all__ = ["PartialSums", "PartitionedModel", "Query", "RemoteObjective", "Traffic"]

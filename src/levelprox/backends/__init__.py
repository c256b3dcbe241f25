"""Data outside the memory of this process: Dask, files read in chunks, GPUs."""

from levelprox.backends._base import PartialSums, Query, RemoteObjective, Traffic
from levelprox.backends.partitioned import PartitionedModel

__all__ = ["PartialSums", "PartitionedModel", "Query", "RemoteObjective", "Traffic"]

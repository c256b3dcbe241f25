"""Data outside the memory of this process: Dask, files read in chunks, GPUs."""

from levelprox.backends._base import Asked
from levelprox.backends.partitioned import ShardedModel

__all__ = ["Asked", "ShardedModel"]

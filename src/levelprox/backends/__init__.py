"""Data outside the memory of this process: Dask, files read in chunks, GPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from levelprox.backends._base import RemoteObjective
from levelprox.backends.partition import DataSource, Form
from levelprox.backends.partitioned import PartitionedModel
from levelprox.backends.query import PartialSums, Query, Traffic
from levelprox.designs import Chunked, is_dask, is_on_device
from levelprox.losses import Loss, loss_by_name
from levelprox.objectives.linear_model import LinearModel

__all__ = [
    "DataSource",
    "PartialSums",
    "PartitionedModel",
    "Query",
    "RemoteObjective",
    "Traffic",
    "linear_model",
    "source_of",
]

#: Called as progress(chunks read in this pass, chunks, what for).
Progress = Callable[[int, int, str], None]


def linear_model(
    X: object,
    b: object = None,
    loss: str | Loss = "squared",
    sample_weight: object = None,
    offset: object = None,
    fit_intercept: bool = False,
    *,
    client: Any = None,
    memory: int | None = None,
) -> LinearModel | RemoteObjective:
    """ψ(x) = Σ s_i ℓ(⟨a_i, x⟩ + o_i, b_i) / Σ s_i, for `Problem` and `solve`; as `LinearModel`, but X may be anywhere.

    Parameters
    ----------
    X : array-like, sparse matrix, Dask array or dataframe, tensor of torch, array of cupy, or Chunked
        Of shape (n, d). A Dask X is held by the workers, one on a device stays there, a `Chunked` (`open_chunked`) is
        read chunk by chunk.
    b : array-like or Dask array of shape (n,), optional
        Targets; −1 and +1 for margin losses such as logistic. Not needed where the files of a `Chunked` hold them.
    loss : str or Loss, default="squared"
        As in `LinearModel`; for data that are not in memory one without kinks.
    sample_weight, offset : array-like or Dask array of shape (n,), optional
    fit_intercept : bool, default=False
    client : distributed.Client, optional
        For a Dask X; by default the current one, and without any the threads of this process.
    memory : int, optional
        For a `Chunked`: bytes for the columns of the features in use.

    Returns
    -------
    LinearModel or RemoteObjective
        The latter has `traffic`: rounds, full_gradients, bytes_out, bytes_back.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from levelprox import constraints, linear_model, Problem, solve
    >>> X = np.random.default_rng(0).standard_normal((100, 5))
    >>> psi = linear_model(da.from_array(X, chunks=(25, 5)), X[:, 1] - X[:, 3])
    >>> np.flatnonzero(solve(Problem(psi, constraints.L1(), 1.5)).x).tolist()
    [1, 3]
    """
    source = source_of(X, b, sample_weight, offset, client=client, memory=memory)
    if source is None:
        return LinearModel(X, b, loss, sample_weight, offset, fit_intercept)  # type: ignore[arg-type]  # it checks them
    return source.model(Form(loss_by_name(loss), fit_intercept))


def source_of(
    X: Any,
    y: Any,
    weight: Any,
    offset: Any,
    *,
    client: Any = None,
    memory: int | None = None,
    progress: Progress | None = None,
) -> DataSource | None:
    """Return the samples where they are; None if that is the memory of this process."""
    if is_dask(X):
        from levelprox.backends.dask import DaskSource

        return DaskSource.of(X, y, weight, offset, client)
    if is_on_device(X):
        from levelprox.backends.device_source import DeviceSource

        return DeviceSource(X, y, weight, offset)
    if isinstance(X, Chunked):
        from levelprox.backends.out_of_core import FileSource

        return FileSource(X, y, weight, offset, memory=memory, progress=progress)
    return None

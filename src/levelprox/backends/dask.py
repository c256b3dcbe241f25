"""Samples on a Dask cluster: each chunk of rows is a partition in the memory of a worker.

    of(X, y)        one task for each chunk reads its rows and keeps them there
    transformed(t)  a transform of the partitions, sent once; applied at the first use, the last results being cached
    total(work)     one graph: the work sent once, a task for each partition, and their sum by a tree, eight at a time

Transformed partitions are cached next to their data, so X is in memory once, however many models are made of it. The
tree depends on the number of chunks alone: the result has the same bits for any assignment of tasks to workers.
"""

from __future__ import annotations

import functools
import operator
import threading
import uuid
from collections.abc import Sequence
from importlib import metadata
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from levelprox._validation import finite, real_array
from levelprox.backends.executor import ChunkError, Executor, executor_for
from levelprox.backends.partition import Partition, T, Transform, Work
from levelprox.backends.partitioned import PartitionedSource
from levelprox.designs import Design, as_design, check_finite
from levelprox.designs.dense import DenseDesign
from levelprox.exceptions import BackendError, InvalidInputError

_AT_ONCE = 8  # sums that one task adds
_REMEMBERED = 2  # ways a partition was changed that it keeps: a model, and the convex one it starts from


class Transforms:
    """One change after the other, known by a name of their own."""

    def __init__(self, name: str = "", steps: tuple[Transform, ...] = ()) -> None:
        self.name, self.steps = name, steps

    def __call__(self, partition: Partition) -> Partition:
        """Apply the transforms to a partition, one after the other."""
        return functools.reduce(lambda last, change: change(last), self.steps, partition)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + sum(_nbytes(vars(step)) for step in self.steps if hasattr(step, "__dict__"))


class StoredPartition:
    """A partition in the memory of a worker, and what was last made of it."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self._made: dict[str, Partition] = {}
        self._lock = threading.Lock()

    def transformed(self, changes: Transforms) -> Partition:
        """Return the partition after these changes."""
        if not changes.steps:
            return self.partition
        with self._lock:
            made = self._made.pop(changes.name, None) or changes(self.partition)
            self._made[changes.name] = made
            while len(self._made) > _REMEMBERED:
                del self._made[next(iter(self._made))]
        return made

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return _received, (self.partition,)

    def __sizeof__(self) -> int:
        """Return what Dask reckons with: X, and not the few bytes of this object."""
        partition = self.partition
        return partition.design.nbytes + sum(_nbytes(one) for one in (partition.y, partition.weight, partition.offset))


class DaskSource(PartitionedSource):
    """Samples in the memory of a Dask cluster: see `of`."""

    def __init__(
        self,
        executor: Executor,
        held: Sequence[Any],
        n_features: int,
        dtype: np.dtype[Any],
        names: list[str] | None = None,
        changes: Any = None,
    ) -> None:
        self.executor, self.held, self.changes = executor, held, changes
        self.n_features, self.dtype, self.names = n_features, dtype, names

    @classmethod
    def of(cls, X: Any, y: Any, weight: Any = None, offset: Any = None, client: Any = None) -> Self:
        """Rows of Dask arrays or dataframes, read at once by the workers and kept there.

        Parameters
        ----------
        X : dask array of shape (n, d), or dask dataframe
            Of NumPy arrays or SciPy sparse matrices; the sizes of its chunks need not be known.
        y, weight, offset : dask array or series, or array-like, of shape (n,); the latter two optional
            Cut as the rows of X are. What is in the memory of this process is sent to the workers once.
        client : distributed.Client, optional
            By default the current one; where there is none, everything is done on threads of this process.

        Raises
        ------
        InvalidInputError
            Where shapes contradict each other, in so far as they are known; else the first round raises it.
        BackendError
            Where the scheduler cannot be reached.
        """
        from dask.base import is_dask_collection
        from dask.delayed import delayed

        executor = executor_for(client)
        rows = {"y": y, "weight": weight, "offset": offset}
        lazy = [name for name, one in rows.items() if is_dask_collection(one)]
        n_features, dtype, names = _columns_of(X)
        blocks, sizes = _blocks(X), _sizes(X)
        token = uuid.uuid4().hex
        if sizes is None and any(one is not None and name not in lazy for name, one in rows.items()):
            blocks, sizes = _measured(executor, blocks, token)
        parts = {name: _cut(name, one, len(blocks), sizes) for name, one in rows.items()}
        read = delayed(_read, pure=False, traverse=False)
        tasks = [
            read(i, _version(), n_features, names, block, *of_rows, dask_key_name=f"levelprox-rows-{token}-{i}")
            for i, (block, *of_rows) in enumerate(zip(blocks, *parts.values(), strict=True))
        ]
        return cls(executor, executor.keep(tasks), n_features, dtype, names)

    def total(self, work: Work[T]) -> T:
        """Return the sum of `work` over all partitions with rows that have a weight."""
        token = uuid.uuid4().hex
        of_work = f"levelprox-work-{token}"
        graph: dict[Any, Any] = {of_work: (_brought, _Wrapped(work))}
        level = [(f"levelprox-part-{token}", i) for i in range(len(self.held))]
        for i, (key, held) in enumerate(zip(level, self.held, strict=True)):
            graph[key] = (_done, i, _version(), held, self.changes, of_work)
        while len(level) > 1 or level[0][0].startswith("levelprox-part"):
            name = f"levelprox-sum-{len(level)}-{token}"
            groups = [level[i : i + _AT_ONCE] for i in range(0, len(level), _AT_ONCE)]
            level = [(name, i) for i in range(len(groups))]
            graph.update({key: (_added, *group) for key, group in zip(level, groups, strict=True)})
        answer = self.executor.result(graph, level[0], self.held)
        if answer is None:
            raise InvalidInputError("no sample has a positive weight")
        total: T = answer
        return total

    def transformed(self, change: Transform) -> Self:
        """Return the same samples with every partition transformed where it is."""
        token = uuid.uuid4().hex
        changes = self.executor.keep_task(
            f"levelprox-change-{token}", (_extended, token, self.changes, _Wrapped(change))
        )
        return type(self)(self.executor, self.held, self.n_features, self.dtype, self.names, changes)

    def __repr__(self) -> str:
        return f"DaskSource({len(self.held)} chunks, {self.n_features} features, {self.executor!r})"


class _Wrapped:
    """Something that Dask is not to look into."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __dask_tokenize__(self) -> str:
        return uuid.uuid4().hex


# What tasks do.


def _brought(wrapped: _Wrapped) -> Any:
    return wrapped.value


def _extended(name: str, last: Transforms | None, wrapped: _Wrapped) -> Transforms:
    return Transforms(name, (*(() if last is None else last.steps), wrapped.value))


def _done(index: int, version: str, held: StoredPartition, changes: Transforms | None, work: Any) -> Any:
    """Return the work on one partition; None where no sample of it has a weight."""
    try:
        _check_version(version)
        partition = held.partition if changes is None else held.transformed(changes)
        return work(partition) if partition.total > 0 else None
    except Exception as error:
        raise _portable(index, error) from None


def _added(*parts: Any) -> Any:
    present = [part for part in parts if part is not None]
    return functools.reduce(operator.add, present) if present else None


def _read(
    index: int,
    version: str,
    n_features: int,
    names: list[str] | None,
    blocks: list[Any],
    y: Any,
    weight: Any = None,
    offset: Any = None,
) -> StoredPartition:
    """One partition of the blocks of its columns, its targets and weights."""
    try:
        _check_version(version)
        X = _side_by_side(blocks)
        rows, columns = X.shape
        if columns != n_features:
            raise InvalidInputError(f"X has {columns} columns here, and {n_features} as a whole")
        for name, one in (("y", y), ("weight", weight), ("offset", offset)):
            if one is not None and len(one) != rows:
                raise InvalidInputError(f"X has {rows} rows, and {name} has {len(one)}")
        design: Design = as_design(X, names) if rows else DenseDesign(np.empty((0, columns)))
        check_finite(design.kernel, names)
        y = None if y is None else _targets(y)
        return StoredPartition(Partition(index, design, y, _weights(weight), _numbers("offset", offset)))
    except Exception as error:
        raise _portable(index, error) from None


def _counted(X: Any) -> int:
    return int(X.shape[0])


def _side_by_side(blocks: list[Any]) -> Any:
    import scipy.sparse

    blocks = [block if scipy.sparse.issparse(block) else np.asarray(block) for block in blocks]
    if len(blocks) == 1:
        return blocks[0]
    if any(map(scipy.sparse.issparse, blocks)):
        return scipy.sparse.hstack(blocks, format="csr")
    return np.hstack(blocks)


def _targets(y: Any) -> NDArray[Any]:
    array = np.asarray(y)
    array = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    if array.ndim != 1:
        raise InvalidInputError(f"y must have one dimension, got shape {array.shape}")
    return array


def _numbers(name: str, values: Any) -> NDArray[np.float64] | None:
    if values is None:
        return None
    numbers = np.ascontiguousarray(real_array(name, values), np.float64)
    finite(name, numbers)
    return numbers


def _weights(values: Any) -> NDArray[np.float64] | None:
    weight = _numbers("weight", values)
    if weight is not None and np.any(weight < 0):
        i = int(np.argmax(weight < 0))
        raise InvalidInputError(f"weight must be nonnegative, got {weight[i]:g} at index {i}")
    return weight


def _check_version(client: str) -> None:
    own = _version()
    if own != client:
        raise BackendError(f"the worker has levelprox {own}, the client {client}: they must be the same")


def _portable(index: int, error: Exception) -> ChunkError:
    """Return an error that can be pickled."""
    import pickle

    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return ChunkError(index, error)


def _received(partition: Partition) -> StoredPartition:
    """Return a partition that was received, with aligned arrays: the kernels need that, networks do not."""
    reduced: Any = partition.design.__reduce__()
    design = reduced[0](*map(_aligned, reduced[1]))
    y, weight, offset = map(_aligned, (partition.y, partition.weight, partition.offset))
    return StoredPartition(Partition(partition.index, design, y, weight, offset, partition.form))


def _aligned(part: Any) -> Any:
    return np.require(part, requirements="A") if isinstance(part, np.ndarray) else part


# How collections are cut.


def _columns_of(X: Any) -> tuple[int, np.dtype[Any], list[str] | None]:
    """Their number, their type, and their names where all have one."""
    if hasattr(X, "columns"):
        columns = list(X.columns)
        single = all(dtype == np.float32 for dtype in X.dtypes)
        names = columns if all(isinstance(name, str) for name in columns) else None
        return len(columns), np.dtype(np.float32 if single else np.float64), names
    if not hasattr(X, "to_delayed") or not hasattr(X, "ndim"):
        raise InvalidInputError(f"X must be a dask array or dataframe, got {type(X).__name__}")
    if X.ndim != 2:
        raise InvalidInputError(f"X must have two dimensions, got {X.ndim}")
    if np.isnan(X.shape[1]):
        raise InvalidInputError("the number of columns of X is not known: call X.compute_chunk_sizes() first")
    return int(X.shape[1]), np.dtype(np.float32 if X.dtype == np.float32 else np.float64), None


def _blocks(X: Any) -> list[list[Any]]:
    """For each chunk of rows those of its columns."""
    blocks = _tasks(X)
    if not blocks.size:
        raise InvalidInputError("X has no chunks")
    return [list(row) for row in blocks.reshape(len(blocks), -1)]


def _tasks(collection: Any) -> NDArray[Any]:
    """One for each chunk.

    Those of arrays are left as they are: Dask would fuse them for X and for y apart, and read twice what both come
    from. Those of dataframes are not, as only then unused columns are left unread.
    """
    return np.array(collection.to_delayed(optimize_graph=not hasattr(collection, "chunks")), dtype=object)


def _sizes(X: Any) -> list[int] | None:
    """Rows of each chunk, where they are known."""
    sizes = X.chunks[0] if hasattr(X, "chunks") else (np.nan,)
    return None if np.isnan(sizes).any() else [int(size) for size in sizes]


def _measured(executor: Executor, blocks: list[list[Any]], token: str) -> tuple[list[list[Any]], list[int]]:
    """Blocks in the memory of the workers, and the rows of each: X is not read twice to count them."""
    from dask.delayed import delayed

    assembled = delayed(_side_by_side, pure=False, traverse=False)
    kept = executor.keep([assembled(row, dask_key_name=f"levelprox-block-{token}-{i}") for i, row in enumerate(blocks)])
    count = f"levelprox-count-{token}"
    graph: dict[Any, Any] = {(count, i): (_counted, one) for i, one in enumerate(kept)}
    graph[count] = [*graph]
    sizes = executor.result(graph, count, kept)
    return [[one] for one in kept], list(sizes)


def _cut(name: str, values: Any, chunks: int, sizes: list[int] | None) -> Sequence[Any]:
    """One part for each chunk of X."""
    from dask.base import is_dask_collection

    if values is None:
        return [None] * chunks
    if not is_dask_collection(values):
        array = np.asarray(values)
        assert sizes is not None
        if len(array) != sum(sizes):
            raise InvalidInputError(f"X has {sum(sizes)} rows, and {name} has {len(array)}")
        return [*np.split(array, np.cumsum(sizes)[:-1])]
    if hasattr(values, "chunks"):
        own = _sizes(values)
        if sizes is not None and own is not None and own != sizes:
            if sum(own) != sum(sizes):
                at = next(
                    (i for i, (m, n) in enumerate(zip(own, sizes, strict=False)) if m != n), min(len(own), chunks)
                )
                raise InvalidInputError(
                    f"X has {sum(sizes)} rows, and {name} has {sum(own)}; they first differ in chunk {at}"
                )
            values = values.rechunk({0: tuple(sizes)})
        if values.ndim == 2 and values.numblocks[1] > 1:
            values = values.rechunk({1: -1})
    parts = _tasks(values).ravel()
    if parts.size != chunks:
        raise InvalidInputError(
            f"X has {chunks} chunks of rows, and {name} has {parts.size}, of sizes that are not known"
        )
    return [*parts]


def _nbytes(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, dict):
        return sum(map(_nbytes, value.values()))
    return _nbytes(vars(value)) if hasattr(value, "__dict__") else 0


@functools.cache
def _version() -> str:
    return metadata.version("levelprox")

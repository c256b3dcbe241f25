"""Samples in files: one chunk of rows after another, in this process.

While one chunk is worked on, the next one is read. A pass goes through the file from the end where the last one
stopped: what of it is still in the system's page cache then comes first, however much larger the file is. Sums are
formed by halves, so that either direction gives the same bits.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levelprox._typing import Index
from levelprox._validation import finite, whole
from levelprox.backends.partition import ComputeStatistics, Partition, SetForm, T, Transform, Work
from levelprox.backends.partitioned import Evaluation, PartitionedSource
from levelprox.backends.query import PartialSums
from levelprox.designs._base import Design
from levelprox.designs.chunked import Chunked
from levelprox.designs.column_view import ColumnCache, DeferredDesign
from levelprox.exceptions import InvalidInputError
from levelprox.losses import check_weights
from levelprox.losses._base import vector

#: Called with the number of chunks read, the total, and the purpose.
Progress = Callable[[int, int, str], None]

_MEMORY = 2**30  # bytes for columns that are kept, unless a quarter of what is free is less


class FileSource(PartitionedSource):
    """Samples in files.

    Made by `FileSource.of`. Targets, weights and offsets are in memory. Of X at most two chunks are at a time, and a
    cache of the columns in use, as far as `memory` goes.

    Attributes
    ----------
    chunked : Chunked
    cache : ColumnCache
    passes : float
        How often all of X has been read so far.
    bytes_read : int
        Of X.
    """

    def __init__(self, samples: Samples, changes: tuple[Transform, ...] = ()) -> None:
        self._samples, self._changes = samples, changes
        self.n_features, self.dtype = samples.chunked.shape[1], samples.chunked.dtype
        self.names = samples.chunked.names

    @classmethod
    def of(
        cls,
        chunked: Chunked,
        y: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        *,
        memory: int | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Samples whose X is in files.

        Parameters
        ----------
        chunked : Chunked
            X; see `levelprox.open_chunked`.
        y : array-like of shape (n,), optional
            By default the targets in the file.
        weight, offset : array-like of shape (n,), optional
        memory : int, optional
            Bytes for the columns of the features in use. Without room for them a file is read in every round. By
            default 1 GiB, or a quarter of what is free where that is less.
        progress : callable, optional
            Called as progress(chunks read in this pass, chunks, what for).
        """
        return cls(Samples(chunked, y, weight, offset, memory, progress))

    @property
    def chunked(self) -> Chunked:
        return self._samples.chunked

    @property
    def cache(self) -> ColumnCache:
        return self._samples.cache

    @property
    def passes(self) -> float:
        return self._samples.bytes_read / self.chunked.nbytes

    @property
    def bytes_read(self) -> int:
        return self._samples.bytes_read

    def transformed(self, change: Transform) -> Self:
        other = copy.copy(self)
        other._changes = (*self._changes, change)
        return other

    def total(self, work: Work[T]) -> T:
        look = isinstance(work, Evaluation) and work.query.gradient == "everywhere"
        with Pass(self._samples, _what_for(work, look), isinstance(work, Evaluation) and not look) as pass_:
            found = self._summed(work, pass_, 0, self.chunked.n_chunks)
        if found is None:
            raise InvalidInputError(f"{self.chunked.name}: no sample has a weight")
        if look and isinstance(found, PartialSums):
            self._samples.learn(found, self._width)
        return found

    @property
    def _width(self) -> int:
        """Coefficients of a feature."""
        return next((one.form.width for one in reversed(self._changes) if isinstance(one, SetForm)), 1)

    def _summed(self, work: Work[T], pass_: Pass, begin: int, end: int) -> T | None:
        """The sum over some chunks; None where no sample of theirs has a weight."""
        if end - begin == 1:
            return self._of_one(work, pass_, begin)
        middle = (begin + end) // 2
        halves: dict[int, T | None] = {}
        for low, high in ((begin, middle), (middle, end))[:: 1 if pass_.forward else -1]:
            halves[low] = self._summed(work, pass_, low, high)
        first, second = halves[begin], halves[middle]
        if first is None or second is None:
            return second if first is None else first
        both: T = first + second
        return both

    def _of_one(self, work: Work[T], pass_: Pass, i: int) -> T | None:
        with pass_.chunk(i) as design:
            partition = self._samples.partition(i, design)
            for change in self._changes:
                partition = change(partition)
            return work(partition) if partition.total > 0 else None

    def __repr__(self) -> str:
        return f"FileSource({self.chunked!r})"


class Samples:
    """What all views of the same samples share: the file, what is kept of it, and how much has been read.

    Parameters
    ----------
    chunked, y, weight, offset, memory, progress
        As in `FileSource.of`.
    """

    def __init__(
        self,
        chunked: Chunked,
        y: ArrayLike | None,
        weight: ArrayLike | None,
        offset: ArrayLike | None,
        memory: int | None,
        progress: Progress | None,
    ) -> None:
        n = chunked.shape[0]
        self.chunked, self.progress = chunked, progress
        self.y = _targets(chunked) if y is None else np.array(y)
        if self.y.shape != (n,):
            raise InvalidInputError(f"{chunked.name} has {n} rows, but y has shape {self.y.shape}")
        self.weight = None if weight is None else check_weights(weight, n)
        self.offset = None if offset is None else np.array(vector("offset", offset))
        if self.offset is not None:
            if self.offset.size != n:
                raise InvalidInputError(f"{chunked.name} has {n} rows, but offset has {self.offset.size}")
            finite("offset", self.offset)
        room = _default_memory() if memory is None else whole("memory", memory)
        sizes = np.array([chunked.chunk_bytes(i) for i in range(chunked.n_chunks)], np.float64)
        self.cache = ColumnCache(room, sizes / max(float(sizes.sum()), 1.0))
        self.bytes_read, self.forward = 0, True

    def partition(self, i: int, design: Design) -> Partition:
        """Chunk i."""
        rows = self.chunked.rows(i)
        weight = None if self.weight is None else self.weight[rows]
        return Partition(i, design, self.y[rows], weight, None if self.offset is None else self.offset[rows])

    def learn(self, answer: PartialSums, width: int) -> None:
        """Of a full gradient pass: features with a large gradient are likely to be needed."""
        if answer.gradient is not None and np.all(np.isfinite(answer.gradient)):
            d = self.chunked.shape[1]  # an intercept is behind them
            size = np.sum(np.square(answer.gradient[: d * width].reshape(d, width)), axis=1)
            self.cache.likely = np.argsort(-size, kind="stable")


class Pass:
    """One round over all chunks, of which those are read that have to be.

    Parameters
    ----------
    samples : Samples
    what : str
        What for.
    keep : bool
        Whether the requested columns will be needed again.
    """

    def __init__(self, samples: Samples, what: str, keep: bool) -> None:
        self._samples, self._chunked, self._what, self._keep = samples, samples.chunked, what, keep
        self.forward = samples.forward
        self._done = 0
        self._threads: ThreadPoolExecutor | None = None
        self._ahead: tuple[int, Future[None]] | None = None
        self._chosen: Index | None = None  # columns of the last request

    def __enter__(self) -> Self:
        self._chunked.check_unchanged()
        return self

    def __exit__(self, *error: object) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)
        if self._ahead is not None:
            self._chunked.leave(self._ahead[0])
        if self._done:
            self._samples.forward = not self.forward

    def chunk(self, i: int) -> _Opened:
        """Chunk i, read when needed."""
        return _Opened(self, i)

    def columns(self, i: int, chosen: Index, read: Callable[[], Design]) -> Design:
        """Some columns of chunk i, from memory where they are there."""
        self._chosen = chosen
        return self._samples.cache.columns(i, chosen, read, self._keep)

    def read(self, i: int) -> Design:
        """Chunk i itself; the next one is read meanwhile."""
        if self._ahead is not None and self._ahead[0] == i:
            ahead, self._ahead = self._ahead[1], None
            ahead.result()
            self._chunked.check_unchanged()
        else:
            self._bring(i)
        following = i + (1 if self.forward else -1)
        if self._ahead is None and self._will_read(following):
            self._threads = self._threads or ThreadPoolExecutor(1, "levelprox-reading")
            self._ahead = following, self._threads.submit(self._bring, following)
        return self._chunked.chunk(i)

    def _bring(self, i: int) -> None:
        self._chunked.bring(i)
        self._samples.bytes_read += self._chunked.chunk_bytes(i)  # one thread at a time is here

    def _will_read(self, i: int) -> bool:
        """Whether chunk i, if there is one, has to be read, as the one before it had."""
        if not 0 <= i < self._chunked.n_chunks:
            return False
        only_columns = self._keep and self._chosen is not None
        return not (only_columns and self._samples.cache.has(i, cast(Index, self._chosen)))

    def leave(self, i: int) -> None:
        """The work on a chunk that was read is done."""
        self._chunked.leave(i)
        self._done += 1
        if self._samples.progress is not None:
            self._samples.progress(self._done, self._chunked.n_chunks, self._what)


class _Opened:
    """A chunk for as long as it is worked on."""

    def __init__(self, pass_: Pass, i: int) -> None:
        self._pass, self._i, self._was_read = pass_, i, False

    def __enter__(self) -> Design:
        chunked, i = self._pass._chunked, self._i
        # nothing in it refers back to it: a cycle would keep the chunk in memory until it is collected
        return DeferredDesign(
            (chunked.n_rows(i), chunked.shape[1]),
            chunked.dtype,
            chunked.chunk_bytes(i),
            self._read,
            lambda chosen, read: self._pass.columns(i, chosen, read),
        )

    def __exit__(self, *error: object) -> None:
        if self._was_read:
            self._pass.leave(self._i)

    def _read(self) -> Design:
        self._was_read = True
        return self._pass.read(self._i)


def _what_for(work: Work[Any], look: bool) -> str:
    if isinstance(work, Evaluation):
        return "looking at all features" if look else "reading columns"
    return "checking X" if isinstance(work, ComputeStatistics) else "measuring X"


def _targets(chunked: Chunked) -> NDArray[Any]:
    """The targets in the file."""
    if not chunked.has_target:
        raise InvalidInputError(f"{chunked.name} holds no targets: give y")
    return np.concatenate([chunked.target(i) for i in range(chunked.n_chunks)])


def _default_memory() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            told = dict(line.split(":", 1) for line in file)
        return min(_MEMORY, int(told["MemAvailable"].split()[0]) * 1024 // 4)
    except (OSError, KeyError, ValueError):  # another system
        return _MEMORY

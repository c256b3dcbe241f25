"""Samples in files: one chunk of rows after another, in this process.

While one chunk is worked on, the next one is read. A pass goes through the file from the end where the last one
stopped: what of it is still in the system's page cache then comes first, however much larger the file is. Sums are
formed by halves, so that either direction gives the same bits.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levelprox._typing import Index
from levelprox._validation import finite, whole
from levelprox.backends.partition import ComputeStatistics, Partition, SetForm, T, Transform, Work
from levelprox.backends.partitioned import Evaluation, PartitionedSource
from levelprox.backends.query import PartialSums
from levelprox.designs import Design
from levelprox.designs.chunked import Chunked
from levelprox.designs.column_view import ColumnCache, DeferredDesign
from levelprox.exceptions import InvalidInputError
from levelprox.losses import check_weights, vector

#: Called as progress(chunks read in this pass, chunks, what for).
Progress = Callable[[int, int, str], None]

_MEMORY = 2**30  # bytes for columns that are kept, unless a quarter of what is free is less


@dataclass
class Reading:
    """How much of a file has been read so far, and in which direction the next pass goes."""

    bytes_read: int = 0
    forward: bool = True


class FileSource(PartitionedSource):
    """Samples in files.

    Targets, weights and offsets are in memory. Of X at most two chunks are at a time, and a cache of the columns in
    use, as far as `memory` goes.

    Parameters
    ----------
    chunked : Chunked
        X; see `levelprox.open_chunked`.
    y : array-like of shape (n,), optional
        By default the targets in the file.
    weight, offset : array-like of shape (n,), optional
    memory : int, optional
        Bytes for the columns of the features in use. Without room for them a file is read in every round. By default
        1 GiB, or a quarter of the free memory if that is less.
    progress : callable, optional
        Called as progress(chunks read in this pass, chunks, what for).

    Attributes
    ----------
    chunked : Chunked
    cache : ColumnCache
    """

    def __init__(
        self,
        chunked: Chunked,
        y: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        *,
        memory: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        n = chunked.shape[0]
        self.chunked, self.progress = chunked, progress
        self.n_features, self.dtype, self.names = chunked.shape[1], chunked.dtype, chunked.names
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
        self.reading = Reading()  # shared by all that is made of these samples, as the cache is
        self._changes: tuple[Transform, ...] = ()

    @property
    def bytes_read(self) -> int:
        """Bytes of X that have been read so far."""
        return self.reading.bytes_read

    @property
    def passes(self) -> float:
        """How often all of X has been read so far."""
        return self.bytes_read / self.chunked.nbytes

    def transformed(self, change: Transform) -> Self:
        """Return the same samples with every partition transformed where it is."""
        other = copy.copy(self)
        other._changes = (*self._changes, change)
        return other

    def total(self, work: Work[T]) -> T:
        """Return the sum of `work` over all partitions with rows that have a weight."""
        everywhere = isinstance(work, Evaluation) and work.query.gradient == "everywhere"
        with Pass(self, _what_for(work, everywhere), isinstance(work, Evaluation) and not everywhere) as pass_:
            found = self._summed(work, pass_, 0, self.chunked.n_chunks)
        if found is None:
            raise InvalidInputError(f"{self.chunked.name}: no sample has a weight")
        if everywhere and isinstance(found, PartialSums):
            self._predict_features(found)
        return found

    def _predict_features(self, sums: PartialSums) -> None:
        """Let the cache prefer features with a large gradient: they are likely to be needed next."""
        if sums.gradient is not None and np.all(np.isfinite(sums.gradient)):
            n_outputs = next((one.form.n_outputs for one in reversed(self._changes) if isinstance(one, SetForm)), 1)
            d = self.n_features  # an intercept is behind them
            size = np.sum(np.square(sums.gradient[: d * n_outputs].reshape(d, n_outputs)), axis=1)
            self.cache.likely = np.argsort(-size, kind="stable")

    def _summed(self, work: Work[T], pass_: Pass, begin: int, end: int) -> T | None:
        """Return the sum over some chunks; None where no sample of theirs has a weight."""
        if end - begin == 1:
            with pass_.chunk(begin) as design:
                partition = self._partition(begin, design)
                return work(partition) if partition.total > 0 else None
        middle = (begin + end) // 2
        halves: dict[int, T | None] = {}
        for low, high in ((begin, middle), (middle, end))[:: 1 if pass_.forward else -1]:
            halves[low] = self._summed(work, pass_, low, high)
        first, second = halves[begin], halves[middle]
        if first is None or second is None:
            return second if first is None else first
        both: T = first + second
        return both

    def _partition(self, i: int, design: Design) -> Partition:
        """Return chunk i, transformed."""
        rows = self.chunked.rows(i)
        weight = None if self.weight is None else self.weight[rows]
        offset = None if self.offset is None else self.offset[rows]
        return functools.reduce(
            lambda last, change: change(last), self._changes, Partition(i, design, self.y[rows], weight, offset)
        )

    def __repr__(self) -> str:
        return f"FileSource({self.chunked!r})"


class Pass:
    """One round over all chunks, of which those are read that have to be.

    Parameters
    ----------
    source : FileSource
    what : str
        The purpose, for progress.
    keep : bool
        Whether the columns that are read will be needed again.
    """

    def __init__(self, source: FileSource, what: str, keep: bool) -> None:
        self._source, self._chunked, self._what, self._keep = source, source.chunked, what, keep
        self.forward = source.reading.forward
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
            self._source.reading.forward = not self.forward

    @contextmanager
    def chunk(self, i: int) -> Iterator[Design]:
        """Open chunk i, which is read at the first use of it, for as long as it is worked on."""
        reads: list[int] = []

        def read() -> Design:
            reads.append(i)
            return self.read(i)

        chunked, columns = self._chunked, functools.partial(self.columns, i)
        try:
            # nothing in it refers back to it: a cycle would keep the chunk in memory until it is collected
            yield DeferredDesign(
                (chunked.n_rows(i), chunked.shape[1]), chunked.dtype, chunked.chunk_bytes(i), read, columns
            )
        finally:
            if reads:
                self.leave(i)

    def columns(self, i: int, chosen: Index, read: Callable[[], Design]) -> Design:
        """Return some columns of chunk i, from memory where they are there."""
        self._chosen = chosen
        return self._source.cache.columns(i, chosen, read, self._keep)

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
        self._source.reading.bytes_read += self._chunked.chunk_bytes(i)  # one thread at a time is here

    def _will_read(self, i: int) -> bool:
        """Whether chunk i, if there is one, has to be read, as the one before it had."""
        if not 0 <= i < self._chunked.n_chunks:
            return False
        chosen = self._chosen if self._keep else None
        return chosen is None or not self._source.cache.has(i, chosen)

    def leave(self, i: int) -> None:
        """Release a chunk that was read, and report progress."""
        self._chunked.leave(i)
        self._done += 1
        if self._source.progress is not None:
            self._source.progress(self._done, self._chunked.n_chunks, self._what)


def _what_for(work: Work[Any], everywhere: bool) -> str:
    if isinstance(work, Evaluation):
        return "full gradient pass" if everywhere else "reading columns"
    return "checking X" if isinstance(work, ComputeStatistics) else "measuring X"


def _targets(chunked: Chunked) -> NDArray[Any]:
    """Return the targets in the file."""
    if not chunked.has_target:
        raise InvalidInputError(f"{chunked.name} holds no targets: give y")
    return np.concatenate([chunked.target(i) for i in range(chunked.n_chunks)])


def _default_memory() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file)
        return min(_MEMORY, int(fields["MemAvailable"].split()[0]) * 1024 // 4)
    except (OSError, KeyError, ValueError):  # another system
        return _MEMORY

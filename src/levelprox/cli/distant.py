"""Data that are not read into memory: on a Dask cluster (--dask), or read from their file in turn (--chunked)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levelprox.cli.exits import CommandError, Exit, UsageError
from levelprox.cli.files import reading
from levelprox.cli.options import Task
from levelprox.cli.parts import Part, parts_of
from levelprox.cli.settings import as_classes, guessed_task

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from levelprox.io.data import Reading

_MOST_LABELS = 1000  # different ones that are remembered: there are no so many classes


@dataclass(frozen=True, eq=False)
class Seen:
    """What is known of targets, without them.

    Attributes
    ----------
    rows : sequence of int
        Of each part.
    total : float
        Of the weights.
    labels : ndarray
        The different targets, or more than `_MOST_LABELS` of them.
    weights : ndarray
        Of each label.
    """

    rows: Sequence[int]
    total: float
    labels: NDArray[Any]
    weights: NDArray[Any]

    @property
    def has_all(self) -> bool:
        """Whether all labels are known."""
        return self.labels.size <= _MOST_LABELS

    def guess(self) -> tuple[Task, str]:
        """What they are for, and why."""
        if self.has_all or self.labels.dtype.kind not in "iuf":
            return guessed_task(self.labels)
        return Task.REGRESSION, f"the target has more than {_MOST_LABELS} different values"


@dataclass(frozen=True, eq=False)
class Distant:
    """Data that are not in memory.

    Attributes
    ----------
    X, y, weight
        As estimators take them; y as it is in the file.
    shape : (int, int)
    names : list of str, optional
    target : str, optional
        The column, where columns have names.
    path : Path
    seen : Seen
    """

    X: Any
    y: Any
    weight: Any
    shape: tuple[int, int]
    names: list[str] | None
    target: str | None
    path: Path
    seen: Seen

    def targets(self, task: Task) -> Any:
        """The targets: classes, or numbers."""
        kind = self.seen.labels.dtype.kind
        if task is Task.REGRESSION:
            if kind not in "iuf":
                raise CommandError(f"{self.path}: the target of a regression must hold numbers, not words", Exit.DATA)
            return self.y
        if not self.seen.has_all:
            raise CommandError(
                f"{self.path}: the target has more than {_MOST_LABELS} different values, too many for classes",
                Exit.DATA,
            )
        return self.y.astype(as_classes(self.seen.labels).dtype)


def in_turn(path: Path, how: Reading) -> Distant:
    """A file of which some rows are in memory at a time."""
    import numpy as np

    from levelprox import open_chunked

    if how.drop or how.weight or how.format:
        raise UsageError("--chunked takes files as they are: it goes with neither --drop, --weight nor --format")
    with reading(path):
        chunked = open_chunked(path, how.target, zero_based=how.zero_based)
        if not chunked.has_target:
            raise UsageError(f"{path} holds no target: name its column or array or, of an .npy file, another one")
        y = np.concatenate([chunked.target(i) for i in range(chunked.n_chunks)])
    y = y.astype(object) if y.dtype.kind in "US" else y if y.dtype.kind == "b" else y.astype(np.float64)
    seen = _combined([_of_part(y, None)])
    target = getattr(chunked, "target_name", how.target)
    return Distant(chunked, y, None, chunked.shape, chunked.names, target, path, seen)


def on_cluster(path: Path, how: Reading, client: Any) -> Distant:
    """A file that the workers read, into their memory; its targets are looked at first."""
    import dask.array as da
    from dask.delayed import delayed

    workers = len(client.scheduler_info(n_workers=-1)["workers"])
    with reading(path):
        cut = parts_of(path, how, max(1, workers))
    seen = _looked_at(cut.parts, client)
    columns = _Columns(seen.labels.dtype)
    read = [delayed(columns, pure=False)(part) for part in cut.parts]

    def joined(place: int, dtype: Any, *width: int) -> Any:
        array: Any = da
        blocks = [
            array.from_delayed(one[place], (n, *width), dtype=dtype) for one, n in zip(read, seen.rows, strict=True)
        ]
        return array.concatenate(blocks)

    X, y = joined(0, cut.dtype, cut.n_features), joined(1, seen.labels.dtype)
    weight = None if how.weight is None else joined(2, float)
    return Distant(X, y, weight, (sum(seen.rows), cut.n_features), cut.names, cut.target, path, seen)


def _looked_at(parts: Sequence[Part], client: Any) -> Seen:
    import uuid

    from dask.delayed import delayed

    from levelprox.backends.executor import executor_for

    executor, token = executor_for(client), uuid.uuid4().hex
    look = delayed(_look, pure=False)
    kept = executor.keep([look(part, dask_key_name=f"levelprox-look-{token}-{i}") for i, part in enumerate(parts)])
    found = executor.result({f"levelprox-looks-{token}": (_listed, *kept)}, f"levelprox-looks-{token}", kept)
    return _combined(found)


@dataclass(frozen=True)
class _Columns:
    """X, targets and weights of a part, the targets of the type that they have as a whole."""

    dtype: Any

    def __call__(self, part: Part) -> tuple[Any, Any, Any]:
        X, y, weight = part.read()
        return X, y.astype(self.dtype), weight


def _look(part: Part) -> Seen:
    import numpy as np

    y, weight = part.read_targets()
    plain = y.astype(object) if y.dtype.kind in "US" else y if y.dtype.kind in "bO" else y.astype(np.float64)
    return _of_part(plain, weight)


def _listed(*found: Seen) -> list[Seen]:
    return list(found)


def _of_part(y: NDArray[Any], weight: NDArray[Any] | None) -> Seen:
    import numpy as np

    labels, places = np.unique(y, return_inverse=True)
    weights = np.bincount(places, weight, labels.size).astype(np.float64)
    few = slice(_MOST_LABELS + 1)
    return Seen([y.size], float(weights.sum()), labels[few], weights[few])


def _combined(found: Sequence[Seen]) -> Seen:
    import numpy as np

    kinds = {one.labels.dtype.kind for one in found}
    if len(kinds) > 1:
        raise CommandError("the target holds words in some rows and numbers in others", Exit.DATA)
    labels, places = np.unique(np.concatenate([one.labels for one in found]), return_inverse=True)
    weights = np.bincount(places, np.concatenate([one.weights for one in found]), labels.size)
    few = slice(_MOST_LABELS + 1)
    rows = [n for one in found for n in one.rows]
    return Seen(rows, sum(one.total for one in found), labels[few], weights[few])

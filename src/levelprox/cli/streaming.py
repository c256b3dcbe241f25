"""levelprox fit --stream: a LIBSVM file taken in by batches, in memory that does not grow with the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levelprox.cli.exits import UsageError
from levelprox.cli.files import reading
from levelprox.cli.inputs import judging_data
from levelprox.cli.naming import Known
from levelprox.cli.options import Task
from levelprox.cli.settings import Settings, as_classes

if TYPE_CHECKING:
    from levelprox.io.data import Reading

_MOST_LABELS = 1000  # different ones that are remembered: there are no so many classes


def streamed(
    path: Path, rows: int, settings: Settings, how: Reading, task_of: Callable[[Any], Task]
) -> tuple[Any, tuple[int, int], Task]:
    """A model of all batches, the shape of the data, and what was learnt.

    The file is read twice: once for its classes and its width, which must be known before the first batch.
    """
    import numpy as np

    from levelprox.io.data import format_of
    from levelprox.io.libsvm import libsvm_batches
    from levelprox.io.stored import FileState

    if (how.format or format_of(path)) != "libsvm":
        raise UsageError("--stream is for LIBSVM files")
    if settings.level is None and settings.features is None:
        raise UsageError("--stream needs --features")
    with reading(path):
        state = FileState(path)
        n, width, labels = _surveyed(path, rows, how)
        task = task_of(labels)
        more = {"classes": as_classes(labels)} if task is Task.CLASSIFICATION else {}
        model = settings.estimator(task, Known(path, width, None, more.get("classes")))
        with _counting(settings, -(-n // rows)) as advance:
            for X, y in libsvm_batches(path, rows, n_features=width, zero_based=how.zero_based):
                with judging_data():
                    model.partial_fit(X, as_classes(y) if more else np.asarray(y, np.float64), **more)
                advance()
        state.check()
    return model, (n, width), task


def _surveyed(path: Path, rows: int, how: Reading) -> tuple[int, int, Any]:
    """Rows, features, and the different labels, as far as they might be classes."""
    import numpy as np

    from levelprox.io.libsvm import MAX_FEATURES, libsvm_batches

    n, width, labels = 0, 0, np.empty(0)
    for X, y in libsvm_batches(path, rows, n_features=MAX_FEATURES, zero_based=how.zero_based):
        n, width = n + y.size, max(width, int(X.indices.max(initial=-1)) + 1)
        if labels.size <= _MOST_LABELS:
            labels = np.union1d(labels, y)
    return n, width, labels


def _counting(settings: Settings, total: int) -> Any:
    """Progress over the batches, where it is to be shown."""
    from contextlib import contextmanager

    from levelprox.report.bar import showing

    @contextmanager
    def counting() -> Any:
        if not settings.shows_progress:
            yield lambda: None
            return
        with showing("partial_fit", total, "batches") as progress:
            yield progress.advance

    return counting()

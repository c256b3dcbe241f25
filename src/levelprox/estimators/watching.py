"""Whom to tell how a fit is doing: the user's callback, scikit-learn's, and the progress that `verbose` asks for."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from sklearn import exceptions as sklearn_exceptions

from levelprox import exceptions
from levelprox._runtime.plurals import counted
from levelprox.estimators.border import Vector
from levelprox.estimators.sklearn_callbacks import each_as_task, steps_of
from levelprox.estimators.task import Observer, Task
from levelprox.exceptions import InvalidInputError, convergence_warnings_as
from levelprox.report.progress import Progress, showing
from levelprox.result import Record
from levelprox.subset.result import SubsetRecord

Item = TypeVar("Item")


class ConvergenceWarning(exceptions.ConvergenceWarning, sklearn_exceptions.ConvergenceWarning):
    """A fit of an estimator ended before it reached `tol`; also a `ConvergenceWarning` of scikit-learn."""


#: Decorate what an estimator calls, also in another thread or process: convergence warnings are those of estimators.
with_estimator_warnings = convergence_warnings_as(ConvergenceWarning)


@contextmanager
def watching(estimator: Any, task: Task) -> Iterator[Observer | None]:
    """The one observer of a fit, or None where nobody wants to know."""
    verbose, callback = check_watchers(estimator)
    with ExitStack() as stack:
        steps = stack.enter_context(steps_of(estimator))
        progress = stack.enter_context(showing(type(estimator).__name__)) if verbose else None
        if callback is None and steps is None and progress is None:
            yield None
            return

        yield _Told(estimator, task, progress, callback, steps)


@dataclass(frozen=True, eq=False)
class _Told:
    """Hands each record on to all that want to know."""

    estimator: Any
    task: Task
    progress: Progress | None
    callback: Callable[[Record | SubsetRecord], bool | None] | None
    steps: Any

    def __call__(self, record: Record | SubsetRecord, x: Vector | None) -> bool:
        if self.progress is not None:
            self.progress.step(record, "" if x is None else counted(self.task.features(x).size, "feature"))
        wants_end = self.callback is not None and bool(self.callback(record))
        if self.steps is not None:
            wants_end |= self.steps.end(None if x is None else lambda: self.estimator._as_of(self.task, x))
        return wants_end

    def meanwhile(self, text: str) -> None:
        """Show what is done between two steps."""
        if self.progress is not None:
            self.progress.aside(text)


@contextmanager
def counting(estimator: Any, total: int, what: str) -> Iterator[Callable[[Iterable[Item]], Iterator[Item]]]:
    """A function that hands on the results of `total` pieces of work, and tells of each."""
    verbose, _ = check_watchers(estimator)
    with ExitStack() as stack:
        progress = stack.enter_context(showing(type(estimator).__name__, total, f"{what}s")) if verbose else None

        def follow(work: Iterable[Item]) -> Iterator[Item]:
            for result in each_as_task(estimator, work, total, what):
                if progress is not None:
                    progress.advance()
                yield result

        yield follow


@contextmanager
def quiet() -> Iterator[None]:
    """Fits that end short are counted; a warning for each of a hundred would hide the one that matters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", exceptions.ConvergenceWarning)
        yield


def check_watchers(estimator: Any) -> tuple[int, Callable[[Record | SubsetRecord], bool | None] | None]:
    """`verbose` and `callback` of an estimator."""
    verbose, callback = estimator.verbose, estimator.callback
    if not isinstance(verbose, Integral | np.bool_) or verbose < 0:
        raise InvalidInputError(f"verbose must be an integer of at least 0, got {verbose!r}")
    if callback is not None and not callable(callback):
        raise InvalidInputError(f"callback must be a function of a record, got {callback!r}")
    return int(verbose), callback

"""Decorators of a fit: callbacks, progress, warnings, time limits, and methods that are not always available.

Callbacks of scikit-learn (`set_callbacks`, since version 1.9) see a fit as a task whose subtasks are its steps. Where
the budget is chosen it has two subtasks: the search, whose subtasks are folds or fits, and the fit of all data. The
number of steps is not known in advance.
"""

from __future__ import annotations

import math
import multiprocessing
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from numbers import Integral
from typing import Any, NoReturn, TypeVar

import numpy as np
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from sklearn import exceptions as sklearn_exceptions
from sklearn.utils.parallel import Parallel

from levelprox import exceptions
from levelprox._runtime import limited, seconds_left
from levelprox._typing import Vector
from levelprox._validation import nonnegative
from levelprox.estimators._fit import Task
from levelprox.estimators._parameters import Callback
from levelprox.exceptions import InvalidInputError, convergence_warnings_as, counted
from levelprox.report.progress import Progress, showing
from levelprox.result import Record
from levelprox.subset.result import SubsetRecord

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin
    from sklearn.callback import with_callbacks as with_callbacks
except ImportError:  # scikit-learn before 1.9

    def with_callbacks(method: Any) -> Any:
        """Return the method: there are no callbacks to tear down."""
        return method

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing to support."""


_FINAL_FIT = 0.25  # share of the time limit for the fit of all data
_LATE = 0.3  # seconds after the limit at which processes are ended

Item = TypeVar("Item")


class ConvergenceWarning(exceptions.ConvergenceWarning, sklearn_exceptions.ConvergenceWarning):
    """A fit of an estimator ended before it reached `tol`; also a `ConvergenceWarning` of scikit-learn."""


#: Decorate what an estimator calls, also in another thread or process: convergence warnings are those of estimators.
with_estimator_warnings = convergence_warnings_as(ConvergenceWarning)


@contextmanager
def observing(estimator: Any, task: Task) -> Iterator[Task]:
    """Yield the task with an observer, or as it is where there is neither a callback nor progress to show."""
    verbose, callback = check_verbose_and_callback(estimator)
    context = getattr(estimator, "_callback_fit_ctx", None)
    if not verbose and callback is None and context is None:
        yield task
        return
    observer = _FitObserver(estimator, task, callback, context)
    with showing(type(estimator).__name__) if verbose else nullcontext() as observer.progress:
        yield replace(task, observer=observer)
    observer.end()


class _FitObserver:
    """An observer that passes each record on to the callback, the callbacks of scikit-learn and the progress bar.

    Parameters
    ----------
    estimator : estimator
    task : Task
    callback : callable or None
        That of the estimator.
    context : sklearn.callback.CallbackContext or None
        Of the fit, whose steps are its subtasks; None without callbacks of scikit-learn.
    """

    def __init__(self, estimator: Any, task: Task, callback: Callback | None, context: Any) -> None:
        self.estimator, self.task, self.callback = estimator, task, callback
        self.progress: Progress | None = None
        self.step: Any = None
        self.of_all_data = context is not None and estimator._n_subtasks is not None  # after a search
        self.context = context
        if self.of_all_data:
            self.context = context.subcontext(task_name="fit-all-data", max_subtasks=None)
            self.context.call_on_fit_task_begin(**estimator._callback_arguments)
        self._begin_step()

    def __call__(self, record: Record | SubsetRecord, x: Vector | None) -> bool:
        if self.progress is not None:
            self.progress.step(record, "" if x is None else counted(self.task.features(x).size, "feature"))
        wants_end = self.callback is not None and bool(self.callback(record))
        if self.step is not None:  # which has the attributes for predictions as of this step, where x is known
            attributes = None if x is None else lambda: self.estimator._as_of(self.task, x)
            arguments = self.estimator._callback_arguments
            wants_end |= bool(self.step.call_on_fit_task_end(**arguments, reconstruction_attributes=attributes))
            self._begin_step()
        return wants_end

    def meanwhile(self, text: str) -> None:
        """Show what is done between two steps."""
        if self.progress is not None:
            self.progress.aside(text)

    def _begin_step(self) -> None:
        if self.context is not None:
            step = self.context.subcontext(task_name="step")
            self.step = step.call_on_fit_task_begin(**self.estimator._callback_arguments)

    def end(self) -> None:
        """End the work after the last step and, after a search, the fit of all data."""
        if self.step is not None:
            self.step.call_on_fit_task_end(**self.estimator._callback_arguments)
        if self.of_all_data:
            self.context.call_on_fit_task_end(**self.estimator._callback_arguments)


def reported(estimator: Any, work: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    """Yield the results of at most `total` jobs, each a subtask of the search, which callbacks cannot stop.

    Parameters
    ----------
    estimator : estimator
        Being fitted.
    work : iterable
        Gives the results.
    total : int
    what : str
        The name of a job.
    """
    verbose, _ = check_verbose_and_callback(estimator)
    with showing(type(estimator).__name__, total, f"{what}s") if verbose else nullcontext() as progress:
        for result in _each_as_subtask(estimator, work, total, what):
            if progress is not None:
                progress.advance()
            yield result


def _each_as_subtask(estimator: Any, work: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    root, results = getattr(estimator, "_callback_fit_ctx", None), iter(work)
    if root is None:
        yield from results
        return
    given = estimator._callback_arguments
    search = root.subcontext(task_name="search", max_subtasks=total).call_on_fit_task_begin(**given)
    for _ in range(total):
        job = search.subcontext(task_name=what).call_on_fit_task_begin(**given)
        found = list(islice(results, 1))  # none where a time limit has ended the work
        job.call_on_fit_task_end(**given)
        yield from found
        if not found:
            break
    search.call_on_fit_task_end(**given)


@dataclass(frozen=True)
class Share:
    """The share of a job in the time that is left, also in another process.

    Attributes
    ----------
    until : float
        When the time is up, by `time.time`; inf without a limit.
    parts : int
        How many jobs are to be done until then, one after another, this one included.
    """

    until: float
    parts: int

    @property
    def seconds(self) -> float:
        """Seconds for this job, if it begins now."""
        return (self.until - time.time()) / self.parts


def shares(count: int, n_jobs: int | None) -> Iterator[Share]:
    """Return the share of each of so many jobs in the time that is left; no more once there is none.

    A part of it is for the fit of all data. Time that a job leaves is there for those after it.
    """
    # Now, and not when joblib takes a job: it does so in other threads, which have no limit.
    until = time.time() + seconds_to_choose()
    workers = effective_n_jobs(n_jobs)
    each = (Share(until, math.ceil((count - i) / workers)) for i in range(count))
    return takewhile(lambda share: share.seconds > 0, each)


def seconds_to_choose() -> float:
    """Return what is left of the time limit, without a part for the fit of all data."""
    return (1 - _FINAL_FIT) * seconds_left()


def results_in_time(work: Iterator[Any], n_jobs: int | None, seconds: float) -> Iterator[Any]:
    """Yield the results of delayed calls of joblib, as far as there is time; processes that are late are ended."""
    alone = effective_n_jobs(n_jobs) == 1  # joblib then takes no timeout
    until, timeout = time.monotonic() + seconds, None if alone or math.isinf(seconds) else seconds + _LATE
    try:
        yield from Parallel(n_jobs=n_jobs, return_as="generator", timeout=timeout)(work)
    except multiprocessing.TimeoutError:  # joblib's, which has ended the processes, if it is not a scorer's own
        if time.monotonic() < until:
            raise


@contextmanager
def quiet() -> Iterator[None]:
    """Ignore convergence warnings: fits of folds that end short are counted, and one warning names them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", exceptions.ConvergenceWarning)
        yield


def check_verbose_and_callback(estimator: Any) -> tuple[int, Callback | None]:
    """Return `verbose` and `callback` of an estimator."""
    verbose, callback = estimator.verbose, estimator.callback
    if not isinstance(verbose, Integral | np.bool_) or verbose < 0:
        raise InvalidInputError(f"verbose must be an integer of at least 0, got {verbose!r}")
    if callback is not None and not callable(callback):
        raise InvalidInputError(f"callback must be a function of a record, got {callback!r}")
    return int(verbose), callback


@contextmanager
def _sklearn_task(estimator: Any, X: object, y: object, sample_weight: object) -> Iterator[None]:
    """Report the begin and, of a fit that succeeds, the end of a fit to the callbacks of scikit-learn."""
    if not hasattr(estimator, "_skl_callbacks"):
        yield
        return
    arguments = {
        "estimator": estimator,
        "X": X,
        "y": y,
        "metadata": None if sample_weight is None else {"sample_weight": sample_weight},
    }
    root = estimator._init_callback_context(max_subtasks=estimator._n_subtasks)
    root.call_on_fit_task_begin(**arguments)
    estimator._callback_arguments = arguments
    try:
        yield
    finally:
        del estimator._callback_arguments
    root.call_on_fit_task_end(**arguments, reconstruction_attributes={})


@contextmanager
def fitting(estimator: Any, X: object, y: object, sample_weight: object) -> Iterator[None]:
    """Set up what surrounds `fit` of an estimator.

    Callbacks of scikit-learn are called. `time_limit` is for all of the fit, from reading the data to the certificate.
    Convergence warnings have the category of scikit-learn. A fit that raises an error leaves the estimator as it was.
    """
    with (
        _sklearn_task(estimator, X, y, sample_weight),
        updating(estimator),
        limited(math.inf if estimator.time_limit is None else nonnegative("time_limit", estimator.time_limit)),
    ):
        yield


@contextmanager
def updating(estimator: Any) -> Iterator[None]:
    """Set up what surrounds `partial_fit`: as `fitting`, without callbacks and time limit."""
    before = estimator._fitted_state()
    with convergence_warnings_as(ConvergenceWarning):
        try:
            yield
        except Exception:
            for name in estimator._fitted_state():
                del estimator.__dict__[name]
            estimator.__dict__.update(before)
            raise


#: What a fit of all data sets and a stream cannot: it no longer has the data.
OF_A_FIT = (
    *("certificate_", "multiplier_", "status_", "message_", "history_", "constraint_", "data_fingerprint_"),
    *("budget_", "feature_cost_"),
)
_OF_ANY_FIT = ("coef_", "intercept_", "classes_", "scale_", "level_", "n_iter_", "n_features_in_")
#: What the choice of a budget sets.
OF_A_CHOICE = ("cv_results_", "best_index_", "best_params_", "best_score_")


def missing_attribute(model: Any, name: str) -> NoReturn:
    """Raise the AttributeError of an estimator that has no such attribute, with the reason where there is one."""
    kind = type(model)
    if hasattr(kind, name):  # a property or method of the class, which raised its own error
        try:
            object.__getattribute__(model, name)
        except AttributeError as error:
            if error.__cause__ is None:
                raise
            # Of scikit-learn's `available_if`, which gives the reason as the cause only.
            raise AttributeError(f"{kind.__name__} has no {name}: {error.__cause__}") from error.__cause__
    plain = f"{kind.__name__!r} object has no attribute {name!r}"
    streamed = "n_samples_seen_" in vars(model)
    if name in OF_A_FIT and streamed:
        raise AttributeError(
            f"{plain}: after partial_fit the data of earlier batches are gone, and nothing can be recomputed from "
            f"them. fit(X, y) on all data sets {name}"
        )
    fitted = "coef_" in vars(model)
    if name == "constraint_" and fitted:
        raise AttributeError(f"{plain}: it is for fits under a level, and this one has n_features")
    choice = name in OF_A_CHOICE
    if choice and not hasattr(kind, "_choose_and_fit"):
        raise AttributeError(f"{plain}: {kind.__name__}CV chooses a budget and has it")
    if not fitted and (choice or name in OF_A_FIT or name in _OF_ANY_FIT):
        raise AttributeError(f"{plain}: it is not fitted yet. Call fit(X, y) first")
    raise AttributeError(plain, name=name, obj=model)
